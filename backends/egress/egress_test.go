package egress_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends/egress"
)

// world is a network of names and addresses, all of which end at real servers.
type world struct {
	mu     sync.Mutex
	names  map[string][][]string // each look-up takes the next answer; the last one stays
	looked []string
	at     map[string]string // address and port to that of a server here
	dialed []string
}

func (w *world) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, name)
	name = strings.TrimSuffix(name, ".")
	answers := w.names[name]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(answers) > 1 {
		w.names[name] = answers[1:]
	}
	var found []netip.Addr
	for _, a := range answers[0] {
		found = append(found, netip.MustParseAddr(a))
	}
	return found, nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to.String())
	at := w.at[to.String()]
	w.mu.Unlock()
	if at == "" {
		return nil, errors.New("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

// boxProxy serves a proxy on the loopback and returns where.
func boxProxy(t *testing.T, c egress.Config, w *world) (string, *egress.Proxy, *egress.BoxProxy) {
	t.Helper()
	p, err := egress.New(c, "backends.test.egress", egress.Outside{
		Resolver: w,
		Dial:     w.dial,
		Own:      func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := p.Serve("box-1", l)
	t.Cleanup(func() {
		d.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), p, d
}

// client asks through the proxy.
func client(at string) *http.Client {
	return &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{
		Proxy:              http.ProxyURL(&url.URL{Scheme: "http", Host: at}),
		DisableKeepAlives:  true,
		DisableCompression: true,
	}}
}

// raw sends bytes to the proxy and returns all that comes back.
func raw(t *testing.T, at, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c) // a connection that is cut has an answer before
	return string(answer)
}

// echo is a server that says what it was asked.
func echo(t *testing.T) (server *httptest.Server, hits func() int) {
	var mu sync.Mutex
	var n int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s host=%s auth=%q proxy=%q body=%s", r.Method, r.URL.RequestURI(), r.Host,
			r.Header.Get("Authorization"), r.Header.Get("Proxy-Authorization"), body)
	}))
	t.Cleanup(s.Close)
	return s, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func TestPlainAndTunnel(t *testing.T) {
	web, _ := echo(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret of ", r.Host) }))
	defer secure.Close()
	w := &world{names: map[string][][]string{"good.example": {{"1.2.3.4"}}}, at: map[string]string{
		"1.2.3.4:80": web.Listener.Addr().String(), "1.2.3.4:443": secure.Listener.Addr().String()}}
	at, p, _ := boxProxy(t, egress.Config{Allow: []string{"good.example"}}, w)

	r, err := client(at).Post("http://Good.Example./x?a=%zz;b", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if want := `POST /x?a=%zz;b host=Good.Example. auth="" proxy="" body=hello`; r.StatusCode != 200 || string(body) != want {
		t.Errorf("%d %s\nwant %s", r.StatusCode, body, want)
	}

	c := client(at)
	tls := secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tls.ServerName = "example.com" // of the test's certificate
	c.Transport.(*http.Transport).TLSClientConfig = tls
	r, err = c.Get("https://good.example/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(r.Body)
	r.Body.Close()
	if string(body) != "secret of good.example" {
		t.Errorf("through a tunnel: %s", body)
	}
	if allowed, refused := p.Counts(); allowed != 2 || refused != 0 {
		t.Errorf("counted %d and %d", allowed, refused)
	}
}

// TestRefused: what is not listed, in every spelling, gets an answer that says what to
// change, and nothing is dialled.
func TestRefused(t *testing.T) {
	w := &world{names: map[string][][]string{
		"good.example":   {{"1.2.3.4"}},
		"inside.example": {{"10.0.0.7"}},
		"me.example":     {{"8.8.4.4"}},
		"loop.example":   {{"127.0.0.1", "::1"}},
	}}
	at, p, _ := boxProxy(t, egress.Config{Allow: []string{"*.example"}}, w)
	requests := []struct{ request, status, reason, text string }{
		{"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403", "not-listed", `add "evil.test:443" to backends.test.egress.allow`},
		{"GET http://evil.test/ HTTP/1.1\r\nHost: good.example\r\n\r\n", "403", "not-listed", "evil.test:80"},
		{"CONNECT good.example:22 HTTP/1.1\r\nHost: x\r\n\r\n", "403", "not-listed", "good.example:22"},
		{"CONNECT inside.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "403", "private", "add the address"},
		{"CONNECT me.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "403", "private", "8.8.4.4"},
		{"GET http://loop.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "403", "private", "127.0.0.1"},
		{"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n", "403", "not-listed", ""},
		{"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: good.example\r\n\r\n", "403", "not-listed", ""},
		{"CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\nHost: x\r\n\r\n", "403", "not-listed", ""},
		{"CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\nHost: x\r\n\r\n", "40", "", ""},
		{"CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-name", "ends in a number"},
		{"CONNECT 127.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-name", ""},
		{"CONNECT 0x7f000001:80 HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-name", ""},
		{"GET http://good.example@127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n", "403", "not-listed", "127.0.0.1:80"},
		{"GET http://good.example:80@127.0.0.1:81/ HTTP/1.1\r\nHost: x\r\n\r\n", "403", "not-listed", "127.0.0.1:81"},
		{"CONNECT missing.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "502", "unresolved", "no such host"},
		{"CONNECT good.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "502", "unreachable", "refused"}, // nothing answers there
		{"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", "400", "bad-request", "the proxy of a box"},
		{"GET https://good.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-request", ""},
		{"GET ftp://good.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-request", ""},
		{"CONNECT good.example HTTP/1.1\r\nHost: x\r\n\r\n", "400", "bad-request", ""},
		{"OPTIONS * HTTP/1.1\r\nHost: good.example\r\n\r\n", "400", "bad-request", ""},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", "", ""},
		{"\x05\x01\x00\r\n", "400", "", ""}, // SOCKS
		{"GET http://good.example/ HTTP/1.1\r\nHost: x\r\nBig: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431", "", ""},
	}
	for _, tt := range requests {
		got := raw(t, at, tt.request)
		if tt.request[0] == 5 || !strings.Contains(tt.request, "good.example:443") {
			w.mu.Lock()
			if len(w.dialed) > 0 {
				t.Errorf("%.60q: dialled %v", tt.request, w.dialed)
			}
			w.mu.Unlock()
		}
		if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) || !strings.Contains(got, tt.text) ||
			tt.reason != "" && !strings.Contains(got, "X-Hermes-Refused: "+tt.reason+"\r\n") {
			t.Errorf("%.80q:\n%s\nwant %s %s %q", tt.request, got, tt.status, tt.reason, tt.text)
		}
		w.mu.Lock()
		w.dialed = nil
		w.mu.Unlock()
	}
	if allowed, refused := p.Counts(); allowed != 0 || refused < 18 {
		t.Errorf("counted %d and %d", allowed, refused)
	}
}

// TestRebinding: the address that was looked at is the one that is dialled; a name is
// looked up once a request, without the search domains of the host.
func TestRebinding(t *testing.T) {
	web, hits := echo(t)
	trap, trapped := echo(t)
	w := &world{names: map[string][][]string{"turn.example": {{"1.2.3.4"}, {"127.0.0.1"}}, "both.example": {{"127.0.0.1", "1.2.3.4", "::1"}}},
		at: map[string]string{
			"1.2.3.4:80":   web.Listener.Addr().String(),
			"127.0.0.1:80": trap.Listener.Addr().String(),
			"[::1]:80":     trap.Listener.Addr().String(),
		}}
	at, _, _ := boxProxy(t, egress.Config{Allow: []string{"*.example"}}, w)
	get := func(name string) int {
		r, err := client(at).Get("http://" + name + "/")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if got := get("turn.example"); got != 200 || hits() != 1 {
		t.Errorf("first: %d, %d hits", got, hits())
	}
	if len(w.looked) != 1 || w.looked[0] != "turn.example." {
		t.Errorf("looked up: %v", w.looked)
	}
	if got := get("turn.example"); got != 403 {
		t.Errorf("turned to the loopback: %d", got)
	}
	if got := get("both.example"); got != 200 || hits() != 2 {
		t.Errorf("an answer that is mixed: %d, %d hits", got, hits())
	}
	if trapped() != 0 {
		t.Error("the loopback was reached")
	}
}

// TestNotSmuggled: bytes behind a request, or a length of two meanings, never become
// another request, and the target sees the host of the address.
func TestNotSmuggled(t *testing.T) {
	web, hits := echo(t)
	w := &world{names: map[string][][]string{"good.example": {{"1.2.3.4"}}}, at: map[string]string{"1.2.3.4:80": web.Listener.Addr().String()}}
	at, _, _ := boxProxy(t, egress.Config{Allow: []string{"good.example"}}, w)
	evil := "GET http://good.example/evil HTTP/1.1\r\nHost: good.example\r\n\r\n"
	for _, tt := range []struct{ name, request, status string }{
		{"pipelined", "GET http://good.example/one HTTP/1.1\r\nHost: good.example\r\n\r\n" + evil, "200"},
		{"two lengths", "POST http://good.example/one HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde" + evil, "400"},
		{
			"length and chunks",
			"POST http://good.example/one HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
			"",
		},
		{"odd encoding", "POST http://good.example/one HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + evil, "501"},
		{"two hosts", "GET http://good.example/one HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{"a line in a target", "GET http://good.example/one%0d%0aX-Y:1 HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := hits()
			got := raw(t, at, tt.request)
			if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) || strings.Contains(got, "/evil") || strings.Count(got, "HTTP/1.1 ") > 1 {
				t.Errorf("answer:\n%s", got)
			}
			if hits()-before > 1 {
				t.Errorf("%d requests arrived", hits()-before)
			}
		})
	}
	got := raw(t, at,
		"GET http://good.example/h HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic abc\r\nConnection: close, X-Drop\r\nX-Drop: 1\r\n\r\n")
	if !strings.Contains(got, `host=good.example auth="" proxy=""`) {
		t.Errorf("with another host:\n%s", got)
	}
	if got := raw(t, at, "GET http://good.example/away HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 302") {
		t.Errorf("a redirect is the client's affair:\n%s", got)
	}
}

// silent accepts, hears and says nothing.
func silent(t *testing.T) (at string, began, ended chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began, ended = make(chan struct{}, 1024), make(chan struct{}, 1024)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			began <- struct{}{}
			all.Go(func() {
				io.Copy(io.Discard, c)
				c.Close()
				ended <- struct{}{}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String(), began, ended
}

// tunnel opens one and returns it behind the proxy's answer.
func tunnel(t *testing.T, at, to string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(60 * time.Second))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	r := bufio.NewReader(c)
	head, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"})
	if err != nil {
		t.Fatal(err)
	}
	return c, r, head.Status
}

func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("without success: ", what)
	}
}

// TestCloseCuts: with the proxy go all of its connections, on both sides.
func TestCloseCuts(t *testing.T) {
	to, began, ended := silent(t)
	w := &world{at: map[string]string{"1.2.3.4:443": to, "1.2.3.4:80": to}}
	at, _, d := boxProxy(t, egress.Config{Allow: []string{"1.2.3.4"}}, w)
	_, r, status := tunnel(t, at, "1.2.3.4:443")
	if !strings.HasPrefix(status, "200") {
		t.Fatal(status)
	}
	plain, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	fmt.Fprint(plain, "GET http://1.2.3.4/ HTTP/1.1\r\nHost: x\r\n\r\n")
	waiting, err := net.Dial("tcp", at) // has not asked yet
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	wait(t, "the first connection", began)
	wait(t, "the second connection", began)
	d.Close()
	if _, err := r.ReadByte(); err == nil {
		t.Error("the tunnel goes on")
	}
	wait(t, "the end of the first target", ended)
	wait(t, "the end of the second target", ended)
	io.Copy(io.Discard, waiting)
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the proxy still answers")
	}
	d.Close() // twice is allowed
}

// TestBounds: connections, bytes and silence.
func TestBounds(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		to, _, _ := silent(t)
		w := &world{at: map[string]string{"1.2.3.4:443": to}}
		at, _, _ := boxProxy(t, egress.Config{Allow: []string{"1.2.3.4"}, Connections: 2}, w)
		one, _, _ := tunnel(t, at, "1.2.3.4:443")
		tunnel(t, at, "1.2.3.4:443")
		if _, _, status := tunnel(t, at, "1.2.3.4:443"); !strings.HasPrefix(status, "503") {
			t.Errorf("the third: %s", status)
		}
		one.Close()
		for { // the place is free when the proxy has seen the end
			if _, _, status := tunnel(t, at, "1.2.3.4:443"); strings.HasPrefix(status, "200") {
				break
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.CopyN(w, zeros{}, 1<<20)
		}))
		defer web.Close()
		w := &world{at: map[string]string{"1.2.3.4:80": web.Listener.Addr().String()}}
		at, _, _ := boxProxy(t, egress.Config{Allow: []string{"1.2.3.4"}, Bytes: 256 << 10}, w)
		if got := raw(t, at, "GET http://1.2.3.4/ HTTP/1.1\r\nHost: x\r\n\r\n"); len(got) > 300<<10 {
			t.Errorf("%d bytes came through", len(got))
		}
		if got := raw(t, at, "GET http://1.2.3.4/ HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") ||
			!strings.Contains(got, "egress.bytes") {
			t.Errorf("afterwards: %s", got)
		}
	})
	t.Run("silence", func(t *testing.T) {
		to, _, ended := silent(t)
		w := &world{at: map[string]string{"1.2.3.4:443": to, "1.2.3.4:80": to}}
		at, _, _ := boxProxy(t, egress.Config{Allow: []string{"1.2.3.4"}, Idle: time.Second}, w)
		_, r, _ := tunnel(t, at, "1.2.3.4:443")
		if _, err := r.ReadByte(); err == nil {
			t.Error("a byte out of nothing")
		}
		wait(t, "the end of a silent tunnel", ended)
		raw(t, at, "GET http://1.2.3.4/ HTTP/1.1\r\nHost: x\r\n\r\n")
		wait(t, "the end of a silent request", ended)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestUnreadAnswer: a box that does not read its answer cannot hold anything for ever.
func TestUnreadAnswer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, zeros{}) }))
	defer web.Close()
	w := &world{at: map[string]string{"1.2.3.4:80": web.Listener.Addr().String()}}
	at, _, d := boxProxy(t, egress.Config{Allow: []string{"1.2.3.4"}, Idle: time.Second, Connections: 1}, w)
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET http://1.2.3.4/ HTTP/1.1\r\nHost: x\r\n\r\n")
	for { // refused for want of a place until the idle time has passed
		if got := raw(t, at, "GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 403") {
			break
		}
	}
	d.Close()
}

// TestLog: what was let out and what was refused is in the log once, without what was
// asked for.
func TestLog(t *testing.T) {
	web, _ := echo(t)
	w := &world{names: map[string][][]string{"good.example": {{"1.2.3.4"}}}, at: map[string]string{"1.2.3.4:80": web.Listener.Addr().String()}}
	path := filepath.Join(t.TempDir(), "egress.jsonl")
	at, _, d := boxProxy(t, egress.Config{Allow: []string{"good.example"}, Log: path}, w)
	for range 3 {
		raw(t, at, "GET http://user:hunter2@good.example/hunter2?key=hunter2 HTTP/1.1\r\nHost: x\r\nAuthorization: hunter2\r\n\r\n")
		raw(t, at, "GET http://user:hunter2@evil.test/hunter2?key=hunter2 HTTP/1.1\r\nHost: x\r\nCookie: hunter2\r\n\r\n")
	}
	d.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("a secret in the log:\n%s", text)
	}
	var got []string
	for l := range strings.Lines(string(text)) {
		var x struct {
			Box, Event, Target, Reason string
			Allowed, Refused, Bytes    int64
		}
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %d %d %v", x.Box, x.Event, x.Target, x.Reason, x.Allowed, x.Refused, x.Bytes > 0))
	}
	want := "box-1 connect good.example:80  0 0 false\nbox-1 refuse evil.test:80 not-listed 0 0 false\nbox-1 close   3 3 true"
	if strings.Join(got, "\n") != want {
		t.Errorf("log:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
}

func TestBadConfig(t *testing.T) {
	for _, tt := range []struct {
		c    egress.Config
		want string
	}{
		{egress.Config{Allow: []string{"https://x.org"}}, `egress.allow: entry "https://x.org": write the name of the host alone`},
		{egress.Config{Allow: []string{"x.org"}, Connections: -1}, "egress.connections: -1"},
		{egress.Config{Allow: []string{"x.org"}, Idle: time.Millisecond}, "egress.idle: 1ms"},
		{egress.Config{Allow: []string{"x.org"}, Bytes: -1}, "egress.bytes"},
		{egress.Config{Allow: []string{"x.org"}, Rate: -1}, "egress.rate"},
		{egress.Config{Allow: []string{"x.org"}, Log: "/proc/nowhere/x"}, "egress.log"},
	} {
		if _, err := egress.New(tt.c, "backends.test.egress", egress.Outside{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.c, err, tt.want)
		}
	}
}

// TestWithin: what a task names is let out to only where the operator's list does too.
func TestWithin(t *testing.T) {
	w := &world{names: map[string][][]string{"a.example": {{"1.2.3.4"}}, "b.example": {{"1.2.3.5"}}, "inside.example": {{"10.0.0.7"}}}, at: map[string]string{}}
	server, hits := echo(t)
	for _, to := range []string{"1.2.3.4:80", "1.2.3.5:80", "10.0.0.7:80", "169.254.169.254:80", "9.9.9.9:80"} {
		w.at[to] = strings.TrimPrefix(server.URL, "http://")
	}
	_, p, _ := boxProxy(t, egress.Config{Allow: []string{"*.example", "0.0.0.0/0", "10.0.0.7"}}, w)
	ask := func(q *egress.Proxy, host string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d := q.Serve("box-2", l)
		defer d.Close()
		got := raw(t, l.Addr().String(), "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		return strings.TrimPrefix(strings.SplitN(got, "\r\n", 2)[0], "HTTP/1.1 ")
	}
	for _, tt := range []struct {
		list       string
		let, stays string // hosts that it lets out to and that it does not
	}{
		{"a.example", "a.example", "b.example 9.9.9.9 10.0.0.7"},
		{"b.example:80 9.9.9.0/24", "b.example 9.9.9.9", "a.example"},
		{"inside.example", "", "inside.example"}, // the address is the operator's, and the task did not name it
		{"inside.example 10.0.0.7", "inside.example 10.0.0.7", "a.example"},
		{"169.254.169.254", "", "169.254.169.254 a.example"}, // no wide network of the operator's opens a special address
	} {
		q, err := p.Within(strings.Fields(tt.list))
		if err != nil {
			t.Errorf("%s: %v", tt.list, err)
			continue
		}
		for _, host := range strings.Fields(tt.let) {
			if got := ask(q, host); got != "200 OK" {
				t.Errorf("%s: %s: %s", tt.list, host, got)
			}
		}
		before := hits()
		for _, host := range strings.Fields(tt.stays) {
			if got := ask(q, host); got != "403 Forbidden" {
				t.Errorf("%s: %s: %s", tt.list, host, got)
			}
		}
		if hits() != before {
			t.Errorf("%s: the target was reached", tt.list)
		}
	}
	if allowed, refused := p.Counts(); allowed == 0 || refused == 0 {
		t.Errorf("counted %d and %d", allowed, refused)
	}
	if _, err := p.Within([]string{
		"a.example",
		"c.test",
	}); err == nil || !strings.Contains(err.Error(), `"c.test" is in no entry of backends.test.egress.allow`) {
		t.Errorf("more than the operator's: %v", err)
	}
}

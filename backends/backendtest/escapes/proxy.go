//go:build linux

package escapes

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/backends"
)

// World is the network beyond the proxy of the boxes that [Proxy] attacks: the resolver
// that its back-end must use, and what it must let out to.
type World struct {
	Allow []string // of the back-end's egress
	good  *httptest.Server
	trap  *httptest.Server // on the host's loopback; nothing may reach it
	hits  atomic.Int64     // of good
	fell  atomic.Int64     // into the trap
	turns atomic.Int64     // look-ups of the name that changes
	held  chan struct{}    // each connection to good that hangs ends with a value
}

// NewWorld starts the servers.
func NewWorld(t *testing.T) *World {
	w := &World{held: make(chan struct{}, 16)}
	w.good = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		switch r.URL.Path {
		case "/away":
			http.Redirect(rw, r, w.trap.URL, http.StatusFound)
			return
		case "/hang":
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			w.held <- struct{}{}
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "well:%s:%s", r.Host, body)
	}))
	t.Cleanup(w.good.Close)
	w.trap = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.trap.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.fell.Add(1)
		}
	}
	w.trap.Start()
	t.Cleanup(w.trap.Close)
	// The good server is on the loopback too, so its address and port are listed.
	good := w.good.Listener.Addr().String()
	w.Allow = []string{good, "good.test:*", "turn.test:*", "inside.test:*", "mixed.test:*"}
	return w
}

// Good is the address that is listed, Trap one that is not.
func (w *World) Good() string { return w.good.Listener.Addr().String() }
func (w *World) Trap() string { return w.trap.Listener.Addr().String() }

// LookupNetIP implements the resolver of the proxy.
func (w *World) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	loop := netip.MustParseAddr("127.0.0.1")
	switch strings.TrimSuffix(name, ".") {
	case "good.test":
		return []netip.Addr{loop}, nil // with the good port only
	case "inside.test":
		return []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("::1")}, nil
	case "mixed.test":
		return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("fd00::1"), loop}, nil
	case "turn.test": // a second look at the name would find another address
		if w.turns.Add(1)%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
		}
		return []netip.Addr{loop}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// ask sends bytes to a port of the box from inside and returns what comes back. It needs
// bash in the box.
func ask(t *testing.T, x backends.Sandbox, request string) string {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{
		Argv: []string{"bash", "-c", `at=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${at%:*}/${at##*:} && printf %s "$REQUEST" >&3 && cat <&3`},
		Env:  map[string]string{"REQUEST": request}, Merge: true, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.TimedOut {
		t.Fatalf("%.80q: no end; so far %s", request, r.Stdout)
	}
	return string(r.Stdout)
}

// Proxy attacks the proxy of the boxes of b, whose egress allows w.Allow and resolves by
// w. Only what is listed may be reached, nothing of one box from another, and nothing
// after a box has ended.
func Proxy(t *testing.T, b backends.Backend, w *World) {
	t.Helper()
	x := open(t, b)
	good, trap := w.Good(), w.Trap()
	_, goodPort, _ := net.SplitHostPort(good)
	_, trapPort, _ := net.SplitHostPort(trap)
	connect := func(to string) string { return "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n" }
	get := func(url, host string) string { return "GET " + url + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	evil := get("http://"+trap+"/", trap)
	for _, tt := range []struct{ name, request, status string }{
		{"what is listed", get("http://"+good+"/", good), "200"},
		{"what is listed, by name", get("http://good.test:"+goodPort+"/", "x"), "200"},
		{"the host's loopback", connect(trap), "403"},
		{"the host's loopback, plain", evil, "403"},
		{"localhost", connect("localhost:" + trapPort), "403"},
		{"localhost as a whole name", connect("localhost.:" + trapPort), "403"},
		{"any address", connect("0.0.0.0:" + trapPort), "403"},
		{"loopback of version 6", connect("[::1]:" + trapPort), "403"},
		{"loopback inside version 6", connect("[::ffff:127.0.0.1]:" + trapPort), "403"},
		{"loopback inside version 6, in hex", connect("[::ffff:7f00:1]:" + trapPort), "403"},
		{"another loopback", connect("127.0.0.2:" + goodPort), "403"},
		{"short address", connect("127.1:" + trapPort), "400"},
		{"decimal address", connect("2130706433:" + trapPort), "400"},
		{"octal address", connect("0177.0.0.1:" + trapPort), "400"},
		{"hex address", connect("0x7f000001:" + trapPort), "400"},
		{"metadata of the cloud", get("http://169.254.169.254/latest/meta-data/", "169.254.169.254"), "403"},
		{"metadata by a listed name", get("http://inside.test/latest/meta-data/", "x"), "403"},
		{"a listed host, another port", connect("127.0.0.1:" + trapPort), "403"},
		{"a listed name, another port of the loopback", connect("good.test:" + trapPort), "403"},
		{"mixed answers, another port", connect("mixed.test:" + trapPort), "403"},
		{"a name that turns", connect("turn.test:" + trapPort), "403"},
		{"a name that has turned", connect("turn.test:" + trapPort), "403"},
		{"the user part of an address", get("http://"+good+"@"+trap+"/", good), "403"},
		{"a host header", get("/", trap), "400"},
		{"a host header beside a listed address", get("http://"+good+"/", trap), "200"},
		{"a second request behind the first", get("http://"+good+"/", good) + evil, "200"},
		{"a request in a body of two lengths", "POST http://" + good + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil, ""},
		{"a request behind odd chunks", "POST http://" + good + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + evil, ""},
		{"a line break in a target", "CONNECT " + good + "\r\nX: " + trap + " HTTP/1.1\r\n\r\n", "400"},
		{"a redirect", get("http://"+good+"/away", good), "302"},
		{"a scheme that is not http", get("file:///etc/passwd", good), "400"},
		{"another protocol", "\x05\x01\x02\r\n\r\n", "400"},
		{"a head without end", get("http://"+good+"/", strings.Repeat("x", 100<<10)), "431"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, x, tt.request)
			if !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) || strings.Count(got, "HTTP/1.1 ") > 1 {
				t.Errorf("%.200q: want %s, got\n%s", tt.request, tt.status, got)
			}
			if tt.status == "403" && !strings.Contains(got, "egress.allow") {
				t.Errorf("the answer does not say what to change:\n%s", got)
			}
		})
	}
	t.Run("around the proxy", func(t *testing.T) {
		for _, at := range []string{good, trap} {
			host, port, _ := net.SplitHostPort(at)
			if out := sh(t, x, "exec 2>/dev/null; bash -c 'exec 3<>/dev/tcp/"+host+"/"+port+" && echo reached'"); out != "" {
				t.Errorf("%s: %s", at, out)
			}
		}
	})
	t.Run("the socket of the proxy", func(t *testing.T) {
		if out := sh(t, x, "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c socket:"); out != "0" {
			t.Errorf("commands can see %s sockets", out)
		}
	})
	t.Run("close", func(t *testing.T) { w.closed(t, b) })
	if n := w.fell.Load(); n > 0 {
		t.Errorf("the host's loopback was reached %d times", n)
	}
}

// closed makes sure that connections end with their box, and that those of another stay.
func (w *World) closed(t *testing.T, b backends.Backend) {
	one, two := open(t, b), open(t, b)
	hang := func(x backends.Sandbox) {
		sh(t, x, `at=${HTTP_PROXY#http://}; (bash -c "exec 3<>/dev/tcp/${at%:*}/${at##*:}; printf 'GET http://`+w.Good()+`/hang HTTP/1.1\r\nHost: x\r\n\r\n' >&3; read -r line <&3; echo \$line > got; cat <&3" >/dev/null 2>&1 &)
			until [ -s got ]; do :; done`)
	}
	hang(one)
	hang(two)
	ends := func(x backends.Sandbox) {
		if err := x.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.held:
		case <-time.After(time.Minute):
			t.Fatal("the connection outlives its box")
		}
	}
	ends(one)
	if got := ask(t, two, "GET http://"+w.Good()+"/ HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("the other box: %s", got)
	}
	select {
	case <-w.held:
		t.Error("the connection of the other box was cut too")
	default:
		ends(two) // the next repeat must not meet its end
	}
}

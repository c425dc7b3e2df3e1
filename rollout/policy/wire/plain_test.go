package wire_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermes/rollout/policy/wire"
)

// text is a body of our own kind.
type text struct{ *strings.Reader }

func newText(s string) func() wire.Body {
	return func() wire.Body { return &text{strings.NewReader(s)} }
}

func (b *text) Len() int64   { return int64(b.Reader.Len()) }
func (b *text) Close() error { return nil }

// talk serves connections with f, which gets the number of the connection, from 0. It waits for
// all of them at the end of the test.
func talk(t *testing.T, f func(n int, c net.Conn, in *bufio.Reader)) (base string, opened *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opened = new(atomic.Int64)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(opened.Add(1)) - 1
			all.Go(func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String() + "/v1", opened
}

// request reads one request, body and all.
func request(in *bufio.Reader) (*http.Request, string, error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil, "", err
	}
	raw, err := io.ReadAll(r.Body)
	return r, string(raw), err
}

func dial(t *testing.T, base string, o wire.Options) *wire.Client {
	t.Helper()
	o.Bases = []string{base}
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	c, err := wire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(ctx context.Context, c *wire.Client, body string) (string, error) {
	a, err := c.Do(ctx, &wire.Request{Path: "/chat/completions", Body: newText(body)}, fetch)
	if err != nil {
		return "", err
	}
	return string(a.Raw), nil
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // against hanging only
	t.Cleanup(cancel)
	return ctx
}

// Whatever a server says, it is read as a plain net/http client reads it, with the same fault.
func TestAnswersAreReadAsNetHTTPReadsThem(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	answers := map[string]string{
		"length":             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"long":               "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long,
		"chunks":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\n\r\n",
		"a trailer":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"long chunks":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" + long + "\r\n0\r\n\r\n",
		"up to the end":      "HTTP/1.1 200 OK\r\n\r\nhello",
		"HTTP/1.0":           "HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.0, length":   "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nhello",
		"lower case":         "HTTP/1.1 200 ok\r\ncontent-length:5\r\n\r\nhello",
		"line feeds":         "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
		"no reason":          "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
		"the same length":    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"two lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
		"a negative length":  "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
		"no length":          "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello",
		"a huge length":      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
		"length and chunks":  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"unknown coding":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
		"folded":             "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
		"space before colon": "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
		"no colon":           "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nhello",
		"interim":            "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"switching":          "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"nothing to say":     "HTTP/1.1 204 No Content\r\n\r\n",
		"empty":              "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"cut":                "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
		"cut chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
		"cut between chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"cut trailer":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
		"bad chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello",
		"cut header":         "HTTP/1.1 200 OK\r\nContent-Le",
		"no answer":          "",
		"no HTTP":            "SSH-2.0-OpenSSH_9.9\r\n",
		"a long status":      "HTTP/1.1 2000 OK\r\n\r\nhello",
		"a header for ever":  "HTTP/1.1 200 OK\r\nA: " + strings.Repeat(long, 30) + "\r\n\r\n",
		"full":               "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}",
		"broken":             "HTTP/1.1 500 Oh\r\n\r\n{}",
		"redirect":           "HTTP/1.1 301 Moved\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
		"too long a prompt":  "HTTP/1.1 400 Bad Request\r\nContent-Length: 51\r\n\r\n" + `{"error":{"message":"maximum context length is 10"}}`,
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
				if _, _, err := request(in); err == nil {
					io.WriteString(c, answer)
				}
			})
			o := wire.Options{Retries: -1, LimitedRetries: -1}
			got, err := ask(patient(t), dial(t, base, o), "hi")
			o.Transport = &http.Transport{DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 1 << 20}
			want, wantErr := ask(patient(t), dial(t, base, o), "hi")
			if got != want || kind(err) != kind(wantErr) || (err == nil) != (wantErr == nil) {
				t.Errorf("%.40q, %v\nnet/http: %.40q, %v", got, err, want, wantErr)
			}
		})
	}
}

// What no HTTP/1 server says is refused, though net/http would take it.
func TestStrangeAnswersAreRefused(t *testing.T) {
	for _, answer := range []string{"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 099 OK\r\n\r\nhello",
		strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20) + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"} {
		base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
			if _, _, err := request(in); err == nil {
				io.WriteString(c, answer)
			}
		})
		if got, err := ask(patient(t), dial(t, base, wire.Options{Retries: -1}), "hi"); kind(err) != wire.Unavailable {
			t.Errorf("%.30q: %q, %v", answer, got, err)
		}
	}
}

// The request is what was asked for, and one connection carries many of them.
func TestRequestsShareAConnection(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	base, opened := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			r, body, err := request(in)
			if err != nil {
				return
			}
			mu.Lock()
			seen = append(seen,
				fmt.Sprintf("%s %s %s %s %d %s %s %s", r.Method, r.RequestURI, r.Host, r.UserAgent(), len(body),
					body[:2], r.Header.Get("Authorization"), r.Header.Get("X-Extra")))
			mu.Unlock()
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
	})
	c := dial(t, base, wire.Options{Keys: []string{"secret"}, Header: http.Header{"X-Extra": {"yes"}}})
	for n := range 20 {
		body := fmt.Sprintf("%02d", n) + strings.Repeat("y", n*10_000)
		if got, err := ask(patient(t), c, body); err != nil || got != body {
			t.Fatalf("request %d: %d bytes, %v", n, len(got), err)
		}
	}
	host := strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1")
	if want := fmt.Sprintf("POST /v1/chat/completions %s hermes 190002 19 Bearer secret yes", host); seen[19] != want {
		t.Errorf("the last request was %q, want %q", seen[19], want)
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections, want 1", opened.Load())
	}
}

// counted is a body that counts how often it is asked to write itself.
type counted struct {
	wire.Body
	writes *atomic.Int64
}

func (b counted) WriteTo(w io.Writer) (int64, error) {
	b.writes.Add(1)
	return b.Body.WriteTo(w)
}

// A large body writes itself to the connection: it is not copied through a buffer of net/http.
func TestLargeBodiesWriteThemselves(t *testing.T) {
	base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
		if _, body, err := request(in); err == nil {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	var writes atomic.Int64
	body := strings.Repeat("x", 1<<20)
	r := &wire.Request{Path: "/chat/completions", Body: func() wire.Body { return counted{newText(body)(), &writes} }}
	a, err := dial(t, base, wire.Options{}).Do(patient(t), r, fetch)
	if err != nil || string(a.Raw) != body || writes.Load() == 0 {
		t.Errorf("%v; the body wrote itself %d times", err, writes.Load())
	}
}

// A connection that the server closed, or spoke on unasked, is not used again: no
// attempt is lost to it and no foreign answer is taken for ours.
func TestDeadConnectionsAreNoticed(t *testing.T) {
	for name, after := range map[string]string{"closed": "", "spoke": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"} {
		for _, together := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/at once=%v", name, together), func(t *testing.T) {
				sent := make(chan struct{})
				next := make(chan struct{})
				base, opened := talk(t, func(n int, c net.Conn, in *bufio.Reader) {
					if _, _, err := request(in); err != nil {
						return
					}
					good := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d", n)
					if together {
						io.WriteString(c, good+after)
					} else {
						io.WriteString(c, good)
						select {
						case <-next: // the answer was read
						case <-t.Context().Done():
						}
						io.WriteString(c, after)
					}
					if after == "" {
						c.Close()
					}
					select {
					case sent <- struct{}{}:
					case <-t.Context().Done():
					}
					io.Copy(io.Discard, in) // up to the client's end
				})
				c := dial(t, base, wire.Options{Retries: -1})
				const requests = 30
				for n := range requests {
					got, err := ask(patient(t), c, "hi")
					if err != nil || got != fmt.Sprintf("%02d", n) {
						t.Fatalf("request %d: %q, %v", n, got, err)
					}
					if !together {
						next <- struct{}{}
					}
					<-sent
				}
				if opened.Load() != requests {
					t.Errorf("%d connections, want %d", opened.Load(), requests)
				}
				c.Close()
			})
		}
	}
}

// A server that refuses a body without reading it is understood, whether it closes the
// connection or not, and whether the connection is new or was used before.
func TestRefusalBeforeTheBodyIsRead(t *testing.T) {
	for name, kept := range map[string]bool{"closed": false, "kept open": true} {
		t.Run(name, func(t *testing.T) {
			base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
				if _, _, err := request(in); err != nil { // a short one first
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
				if kept {
					<-t.Context().Done() // without a read
				}
			})
			c := dial(t, base, wire.Options{Retries: -1})
			for n := range 20 {
				if got, err := ask(patient(t), c, "hi"); err != nil || got != "ok" {
					t.Fatalf("request %d: %q, %v", n, got, err)
				}
				if _, err := ask(patient(t), c, strings.Repeat("x", 8<<20)); kind(err) != wire.Overlong {
					t.Fatalf("refusal %d: %v, want kind %s", n, err, wire.Overlong)
				}
			}
		})
	}
	t.Run("new", func(t *testing.T) {
		base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
			if _, err := http.ReadRequest(in); err == nil {
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			}
		})
		for n := range 20 {
			if _, err := ask(patient(t), dial(t, base, wire.Options{Retries: -1}), strings.Repeat("x", 1<<20)); kind(err) != wire.Overlong {
				t.Fatalf("refusal %d: %v, want kind %s", n, err, wire.Overlong)
			}
		}
	})
}

// A context that ends closes the connection, at any point of the exchange; the next request is
// not harmed by it.
func TestCancelledExchanges(t *testing.T) {
	for name, begin := range map[string]string{
		"before the answer": "", "in the header": "HTTP/1.1 200 OK\r\nContent-", "before the body": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n",
		"in the body": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", "in a chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			reached, gone := make(chan struct{}), make(chan struct{})
			base, _ := talk(t, func(n int, c net.Conn, in *bufio.Reader) {
				if _, _, err := request(in); err != nil {
					return
				}
				if n > 0 {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					return
				}
				io.WriteString(c, begin)
				close(reached)
				io.Copy(io.Discard, in)
				close(gone)
			})
			ctx, cancel := context.WithCancel(patient(t))
			go func() {
				<-reached
				cancel()
			}()
			c := dial(t, base, wire.Options{})
			if _, err := ask(ctx, c, "hi"); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the context's error", err)
			}
			<-gone
			if got, err := ask(patient(t), c, "hi"); err != nil || got != "ok" {
				t.Errorf("the next request: %q, %v", got, err)
			}
		})
	}
}

// Requests that are cancelled at any moment, while others share their connections, neither hang
// nor take an answer that was meant for another one. Empty answers are among them: net/http
// gives their connection to the next request before they are taken.
func TestCancelledAtAnyMoment(t *testing.T) {
	base, _ := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			_, body, err := request(in)
			if err != nil {
				return
			}
			if body == "" {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			half := len(body) / 2
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:half])
			io.WriteString(c, body[half:])
		}
	})
	c := dial(t, base, wire.Options{Concurrency: 4})
	ctx := patient(t)
	var all sync.WaitGroup
	var came, ended atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				body := strings.Repeat(fmt.Sprintf("%d.%d ", i, n), n%3*100)
				one, cancel := context.WithTimeout(ctx, time.Duration(n*7%40)*50*time.Microsecond)
				got, err := ask(one, c, body)
				cancel()
				switch {
				case err == nil && got == body:
					came.Add(1)
				case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
					ended.Add(1)
				default:
					t.Errorf("request %d of %d: %d bytes of %d, %v", n, i, len(got), len(body), err)
					return
				}
			}
		})
	}
	all.Wait()
	if got, err := ask(ctx, c, "hi"); err != nil || got != "hi" {
		t.Errorf("the last request: %q, %v", got, err)
	}
	if came.Load() == 0 || ended.Load() == 0 {
		t.Errorf("%d answers came, %d requests were cancelled: some of both were wanted", came.Load(), ended.Load())
	}
}

// The clock of an attempt ends an answer that stalls. The next attempt opens a connection.
func TestStalledAnswersAreTriedAgain(t *testing.T) {
	base, opened := talk(t, func(n int, c net.Conn, in *bufio.Reader) {
		for {
			if _, _, err := request(in); err != nil {
				return
			}
			if n == 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
				continue
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := dial(t, base, wire.Options{Whole: 50 * time.Millisecond, Retries: 1000})
	if got, err := ask(patient(t), c, "hi"); err != nil || got != "ok" || opened.Load() < 2 {
		t.Errorf("%q, %v over %d connections", got, err, opened.Load())
	}
}

// Requests reach a server whatever is odd about them.
func TestOddRequests(t *testing.T) {
	var mu sync.Mutex
	var agent, uri, coding string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		agent = r.UserAgent()
		uri = r.RequestURI
		coding = r.Header.Get("Accept-Encoding")
		fmt.Fprint(w, n)
	}))
	defer s.Close()
	tests := []struct {
		name string
		base string
		o    wire.Options
		size int
		uri  string
	}{
		{name: "the usual", base: s.URL, size: 10, uri: "/chat/completions"},
		{name: "a large body", base: s.URL, size: 1<<20 + 1, uri: "/chat/completions"},
		{name: "an odd header", base: s.URL, o: wire.Options{Header: http.Header{"Connection": {"close"}}}, size: 10, uri: "/chat/completions"},
		{name: "another agent", base: s.URL, o: wire.Options{Header: http.Header{"User-Agent": {"me"}}}, size: 10, uri: "/chat/completions"},
		{name: "another encoding", base: s.URL, o: wire.Options{Header: http.Header{"Accept-Encoding": {"br"}}}, size: 10, uri: "/chat/completions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ask(patient(t), dial(t, tt.base, tt.o), strings.Repeat("x", tt.size))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got != fmt.Sprint(tt.size) || uri != tt.uri {
				t.Errorf("%q, %v; for %s; want %s", got, err, uri, tt.uri)
			}
			if want := cmp.Or(tt.o.Header.Get("Accept-Encoding"), "identity"); coding != want {
				t.Errorf("we took the encoding %s, want %s", coding, want)
			}
			if want := cmp.Or(tt.o.Header.Get("User-Agent"), "hermes"); agent != want {
				t.Errorf("we said that we are %s, want %s", agent, want)
			}
		})
	}
	t.Run("a header that would split", func(t *testing.T) {
		c := dial(t, s.URL, wire.Options{Header: http.Header{"X-A": {"b\r\nX-Evil: c"}}, Retries: -1})
		if got, err := ask(patient(t), c, "hi"); err == nil {
			t.Errorf("it was sent: %q", got)
		}
	})
}

// Many at once never see each other's answers.
func TestConnectionsAreNotMixedUp(t *testing.T) {
	base, opened := talk(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			_, body, err := request(in)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	})
	const many = 16
	c := dial(t, base, wire.Options{Concurrency: many})
	ctx := patient(t)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			for n := range 50 {
				body := strings.Repeat(fmt.Sprintf("%d.%d ", i, n), 1+n*i)
				if got, err := ask(ctx, c, body); err != nil || got != body {
					t.Errorf("request %d of %d: %d bytes of %d, %v", n, i, len(got), len(body), err)
					return
				}
			}
		})
	}
	all.Wait()
	// net/http opens a connection while it waits for one that comes back.
	if opened.Load() > 3*many {
		t.Errorf("%d connections for %d at once and %d requests", opened.Load(), many, many*50)
	}
}

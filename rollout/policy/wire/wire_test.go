package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermes/rollout/policy/wire"
)

// trip is a transport made of a function; n counts the requests from 0.
type trip struct {
	mu    sync.Mutex
	n     int
	hosts []string
	keys  []string
	f     func(n int, r *http.Request) (*http.Response, error)
}

func (t *trip) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	n := t.n
	t.n++
	t.hosts = append(t.hosts, r.URL.Host)
	t.keys = append(t.keys, r.Header.Get("Authorization"))
	t.mu.Unlock()
	return t.f(n, r)
}

func respond(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

func client(t *testing.T, tr *trip, o wire.Options) *wire.Client {
	t.Helper()
	if o.Bases == nil {
		o.Bases = []string{"http://one/v1"}
	}
	o.Transport = tr
	c, err := wire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// fetch is an exchange that reads everything.
func fetch(ctx context.Context, d wire.Doer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x", nil)
	if err != nil {
		return err
	}
	resp, err := d.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func kind(err error) wire.Kind {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// stalled never ends; it gives up when its request does.
type stalled struct {
	ctx  context.Context
	head io.Reader
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, _ := s.head.Read(p); n > 0 {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s *stalled) Close() error { return nil }

func TestRetriesAndDeadlines(t *testing.T) {
	ok := func(*http.Request) (*http.Response, error) { return respond(200, `{"ok":1}`), nil }
	fail := func(status int, header ...string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return respond(status, `{"error":{"message":"no"}}`, header...), nil
		}
	}
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	stall := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: &stalled{r.Context(), strings.NewReader("data: {}\n\n")}}, nil
	}
	silent := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: &stalled{r.Context(), strings.NewReader("")}}, nil
	}
	date := func(*http.Request) (*http.Response, error) {
		return respond(503, "", "Retry-After", time.Now().Add(40*time.Second).UTC().Format(http.TimeFormat)), nil
	}
	tests := []struct {
		name     string
		answers  []func(*http.Request) (*http.Response, error) // the last one again
		opt      wire.Options
		stream   bool
		kind     wire.Kind
		requests int
		atLeast  time.Duration
		below    time.Duration
	}{
		{name: "at once", answers: list(ok), requests: 1, below: 1},
		{name: "500 then good", answers: list(fail(500), fail(502), ok), requests: 3, atLeast: 1500 * time.Millisecond, below: 3001 * time.Millisecond},
		{name: "500 for ever", answers: list(fail(500)), kind: wire.Unavailable, requests: 5},
		{name: "no retries", answers: list(fail(500)), opt: wire.Options{Retries: -1}, kind: wire.Unavailable, requests: 1, below: 1},
		{name: "Retry-After in seconds", answers: list(fail(429, "Retry-After", "7"), ok), requests: 2, atLeast: 7 * time.Second, below: 8 * time.Second},
		{name: "Retry-After as a date", answers: list(date, ok), requests: 2, atLeast: 39 * time.Second, below: 41 * time.Second},
		{name: "Retry-After too long", answers: list(fail(429, "Retry-After", "3600")), kind: wire.Limited, requests: 1, below: 1},
		{
			name:     "429 outlasts the retries of errors",
			answers:  list(fail(429), fail(429), fail(429), fail(429), fail(429), fail(429), fail(429), ok),
			requests: 8,
		},
		{name: "401", answers: list(fail(401)), kind: wire.Auth, requests: 1, below: 1},
		{name: "400", answers: list(fail(400)), kind: wire.Rejected, requests: 1, below: 1},
		{
			name:     "no first byte",
			answers:  list(hang, ok),
			stream:   true,
			opt:      wire.Options{FirstByte: 20 * time.Second},
			requests: 2,
			atLeast:  20 * time.Second,
			below:    22 * time.Second,
		},
		{
			name:     "half-open stall",
			answers:  list(stall, ok),
			stream:   true,
			opt:      wire.Options{Idle: 30 * time.Second},
			requests: 2,
			atLeast:  30 * time.Second,
			below:    32 * time.Second,
		},
		{
			name:     "a header and nothing else",
			answers:  list(silent, ok),
			stream:   true,
			opt:      wire.Options{FirstByte: 90 * time.Second},
			requests: 2,
			atLeast:  90 * time.Second,
			below:    92 * time.Second,
		},
		{
			name:     "too long in all",
			answers:  list(hang),
			opt:      wire.Options{Whole: time.Minute, Retries: 1},
			kind:     wire.Unavailable,
			requests: 2,
			atLeast:  2 * time.Minute,
			below:    123 * time.Second,
		},
		{name: "too large", answers: list(ok), opt: wire.Options{MaxAnswer: 4, Retries: -1}, kind: wire.Malformed, requests: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &trip{f: func(n int, r *http.Request) (*http.Response, error) { return tt.answers[min(n, len(tt.answers)-1)](r) }}
				c := client(t, tr, tt.opt)
				start := time.Now()
				a, err := c.Do(t.Context(), &wire.Request{Path: "/x", Stream: tt.stream}, fetch)
				took := time.Since(start)
				if kind(err) != tt.kind || tr.n != tt.requests || took < tt.atLeast || (tt.below > 0 && took >= tt.below) {
					t.Errorf("%d requests in %s: %v; want %q, %d requests, %s to %s", tr.n, took, err, tt.kind, tt.requests, tt.atLeast, tt.below)
				}
				if err == nil && string(a.Raw) != `{"ok":1}` {
					t.Errorf("raw answer %q", a.Raw)
				}
			})
		})
	}
}

func list[T any](l ...T) []T { return l }

// A list of models that does not come, or does not end, is given up: no command waits for it for ever.
func TestGetHasDeadlines(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body := func(text string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: &stalled{r.Context(), strings.NewReader(text)}}, nil
		}
	}
	opt := wire.Options{FirstByte: 20 * time.Second, Idle: 30 * time.Second, Whole: time.Minute}
	short := opt
	short.Whole = 10 * time.Second
	tests := []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		opt    wire.Options
		after  time.Duration
		says   string
	}{
		{"no answer", hang, opt, 20 * time.Second, "began"},
		{"a header and nothing else", body(""), opt, 20 * time.Second, "began"},
		{"a part", body(`{"data":[`), opt, 30 * time.Second, "stalled"},
		{"too long in all", hang, short, 10 * time.Second, "took too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &trip{f: func(_ int, r *http.Request) (*http.Response, error) { return tt.answer(r) }}
				start := time.Now()
				_, err := client(t, tr, tt.opt).Get(t.Context(), "/models")
				if took := time.Since(start); kind(err) != wire.Unavailable || took != tt.after || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("after %s: %v; want %q after %s", took, err, tt.says, tt.after)
				}
			})
		})
	}
}

func TestCancelEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{f: func(int, *http.Request) (*http.Response, error) { return respond(500, ""), nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := client(t, tr, wire.Options{}).Do(ctx, &wire.Request{}, fetch); !errors.Is(err, context.DeadlineExceeded) || kind(err) != "" {
			t.Errorf("%v, want the context's error", err)
		}
	})
}

// The limiter halves once for all that were in flight, and grows again by one a window.
func TestLimiterFindsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity = 10
		var mu sync.Mutex
		flying, refused := 0, 0
		tr := &trip{f: func(int, *http.Request) (*http.Response, error) {
			mu.Lock()
			flying++
			full := flying > capacity
			mu.Unlock()
			defer func() { mu.Lock(); flying--; mu.Unlock() }()
			if full {
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				refused++
				mu.Unlock()
				return respond(429, ""), nil
			}
			time.Sleep(time.Second)
			return respond(200, "{}"), nil
		}}
		c := client(t, tr, wire.Options{Concurrency: 64})
		var wg sync.WaitGroup
		for range 640 {
			wg.Go(func() {
				if _, err := c.Do(t.Context(), &wire.Request{}, fetch); err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > 130*time.Second { // 64 s if every place were always taken
			t.Errorf("640 requests took %s", took)
		}
		if refused > 320 {
			t.Errorf("%d requests were refused", refused)
		}
		if l := c.Loads()[0]; l.Flying != 0 || l.Limit < 5 || l.Limit > 20 {
			t.Errorf("load %+v after a capacity of %d", l, capacity)
		}
	})
}

func TestRouteStaysAndMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := ""
		tr := &trip{f: func(_ int, r *http.Request) (*http.Response, error) {
			if r.URL.Host == dead {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return respond(200, "{}"), nil
		}}
		c := client(t, tr, wire.Options{Bases: []string{"http://a", "http://b", "http://c"}})
		routes, homes := map[string]*wire.Route{}, map[string]int{}
		var notes []string
		do := func(name string) {
			t.Helper()
			if _, err := c.Do(t.Context(), &wire.Request{Route: routes[name], Notes: func(s string) { notes = append(notes, s) }}, fetch); err != nil {
				t.Fatal(err)
			}
		}
		first := map[string]string{}
		for i := range 90 {
			name := fmt.Sprint("r", i)
			routes[name] = wire.NewRoute(name)
			do(name)
			first[name] = routes[name].Replica()
			homes[first[name]]++
		}
		for base, n := range homes {
			if n < 15 {
				t.Errorf("%s has only %d of 90 routes", base, n)
			}
		}
		dead = "b"
		for name := range routes {
			do(name)
			if at := routes[name].Replica(); at == "http://b" || (first[name] != "http://b" && at != first[name]) {
				t.Errorf("%s: from %s to %s while b is dead", name, first[name], at)
			}
		}
		if len(notes) != homes["http://b"] || !strings.Contains(notes[0], "replica http://b to http://") {
			t.Errorf("%d notes for %d moves: %.200q", len(notes), homes["http://b"], notes)
		}
		dead = ""
		time.Sleep(time.Hour)
		before := len(notes)
		for name := range routes {
			do(name) // whoever moved stays where its prefix is cached now
		}
		if len(notes) != before {
			t.Errorf("routes moved back: %q", notes[before:])
		}
	})
}

// When every replica is dead, the request waits between its attempts.
func TestAllReplicasDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{f: func(int, *http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}}
		c := client(t, tr, wire.Options{Bases: []string{"http://a", "http://b"}})
		start := time.Now()
		_, err := c.Do(t.Context(), &wire.Request{}, fetch)
		if took := time.Since(start); kind(err) != wire.Unavailable || took < 5*time.Second || tr.n != 5 {
			t.Errorf("%v after %s and %d requests", err, took, tr.n)
		}
	})
}

func TestFileOfBases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bases")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# ours\nhttp://a\n")
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{f: func(int, *http.Request) (*http.Response, error) { return respond(200, "{}"), nil }}
		c := client(t, tr, wire.Options{Bases: []string{"@" + file}})
		route, note := wire.NewRoute("r"), ""
		do := func() string {
			time.Sleep(2 * time.Second)
			if _, err := c.Do(t.Context(), &wire.Request{Route: route, Notes: func(s string) { note = s }}, fetch); err != nil {
				t.Fatal(err)
			}
			return route.Replica()
		}
		if at := do(); at != "http://a" {
			t.Errorf("at %s", at)
		}
		write("http://bb\n")
		if at := do(); at != "http://bb" || !strings.Contains(note, "left the list") {
			t.Errorf("at %s, note %q", at, note)
		}
		write("nonsense that is no address\n")
		if at := do(); at != "http://bb" {
			t.Errorf("a broken file moved us to %s", at)
		}
	})
}

func TestKeyPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := map[string]int{"Bearer k1": 401, "Bearer k2": 429}
		tr := &trip{}
		tr.f = func(n int, r *http.Request) (*http.Response, error) {
			if s := bad[r.Header.Get("Authorization")]; s != 0 {
				return respond(s, ""), nil
			}
			return respond(200, "{}"), nil
		}
		c := client(t, tr, wire.Options{Keys: []string{"k1", "k2", "k3"}, Concurrency: 8})
		for range 4 {
			if _, err := c.Do(t.Context(), &wire.Request{}, fetch); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(tr.keys, ","); got != "Bearer k1,Bearer k2,Bearer k3,Bearer k3,Bearer k3,Bearer k3" {
			t.Errorf("keys used: %s", got)
		}
		if l := c.Loads()[0]; l.Limit != 8 {
			t.Errorf("a key's limit cut the server's to %d", l.Limit)
		}
		bad["Bearer k3"] = 401
		bad["Bearer k2"] = 401
		time.Sleep(time.Hour)
		_, err := c.Do(t.Context(), &wire.Request{}, fetch)
		if kind(err) != wire.Auth || strings.Contains(err.Error(), "k3") {
			t.Errorf("all keys refused: %v", err)
		}
	})
}

func TestMetricsShrinkTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting atomic.Int64
		tr := &trip{f: func(_ int, r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/metrics" {
				return respond(200,
					fmt.Sprintf("# HELP x\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} %d.0\nvllm:num_preemptions_total{engine=\"0\"} 0.0\n",
						waiting.Load())), nil
			}
			time.Sleep(10 * time.Second)
			return respond(200, "{}"), nil
		}}
		c := client(t, tr, wire.Options{Bases: []string{"http://a/v1"}, Concurrency: 64})
		if !c.Watch(t.Context(), time.Second) {
			t.Error("no metrics")
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { c.Do(t.Context(), &wire.Request{}, fetch) })
		}
		time.Sleep(900 * time.Millisecond) // 16, 32, 64
		waiting.Store(20)
		time.Sleep(time.Second)
		if l := c.Loads()[0]; l.Limit != 45 || l.Flying != 64 {
			t.Errorf("load %+v with 20 of 64 waiting", l)
		}
		wg.Wait()
		c.Close()
	})
}

// The counters of requests that were thrown out, under the names of old and new servers,
// make the limit smaller.
func TestEvictionsShrinkTheLimit(t *testing.T) {
	for _, name := range []string{"vllm:num_preemptions_total", "sglang:num_retracted_reqs_total", "sglang:num_retracted_requests_total"} {
		synctest.Test(t, func(t *testing.T) {
			var evicted atomic.Int64
			tr := &trip{f: func(_ int, r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/metrics" {
					return respond(200,
						fmt.Sprintf("vllm:num_requests_waiting 0\nsglang:num_queue_reqs 0\n%s{model_name=\"m\"} %d\n", name, evicted.Load())), nil
				}
				time.Sleep(10 * time.Second)
				return respond(200, "{}"), nil
			}}
			c := client(t, tr, wire.Options{Bases: []string{"http://a/v1"}, Concurrency: 64})
			if !c.Watch(t.Context(), time.Second) {
				t.Error("no metrics")
			}
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() { c.Do(t.Context(), &wire.Request{}, fetch) })
			}
			time.Sleep(900 * time.Millisecond)
			before := c.Loads()[0].Limit
			evicted.Store(5)
			time.Sleep(time.Second)
			if after := c.Loads()[0].Limit; after >= before {
				t.Errorf("%s: %d before, %d after 5 evictions", name, before, after)
			}
			wg.Wait()
			c.Close()
		})
	}
}

// memory is a Tape.
type memory map[[32]byte][]byte

func (m memory) Lookup(d [32]byte) ([]byte, bool) { a, ok := m[d]; return a, ok }
func (m memory) Store(d [32]byte, a []byte) error { m[d] = a; return nil }

func TestCassette(t *testing.T) {
	answers := []string{`{"a":1}`, "data: \xff\n\n", `{"a":3}`}
	tr := &trip{f: func(n int, _ *http.Request) (*http.Response, error) { return respond(200, answers[n]), nil }}
	var tape bytes.Buffer
	c := client(t, tr, wire.Options{Record: wire.NewRecorder(&tape)})
	same, other := sha256.Sum256([]byte("same")), sha256.Sum256([]byte("other"))
	reqs := []wire.Request{{Digest: same, Key: "k1"}, {Digest: same, Key: "k2"}, {Digest: other, Key: "k1"}}
	for i := range reqs {
		if _, err := c.Do(t.Context(), &reqs[i], fetch); err != nil {
			t.Fatal(err)
		}
	}
	cas, err := wire.ReadCassette("run.cassette", strings.NewReader(tape.String()+`{"digest":"cut o`))
	if err != nil || cas.Len() != 2 {
		t.Fatalf("%d requests, %v", cas.Len(), err)
	}
	off := client(t, tr, wire.Options{Replay: cas})
	mem := memory{}
	for _, i := range []int{2, 1, 0, 1} { // another order, and one again
		r := reqs[i]
		r.Tape = mem
		delete(mem, r.Digest)
		a, err := off.Do(t.Context(), &r, fetch)
		if err != nil || string(a.Raw) != answers[i] || !a.Replayed || string(mem[r.Digest]) != answers[i] {
			t.Errorf("request %d: %+v, %v, stored %q", i, a, err, mem[r.Digest])
		}
	}
	_, err = off.Do(t.Context(), &wire.Request{Key: "k9"}, fetch)
	if kind(err) != wire.Offline || !strings.Contains(err.Error(), "run.cassette") || tr.n != 3 {
		t.Errorf("unknown request: %v after %d requests", err, tr.n)
	}
	if _, err := wire.ReadCassette("x", strings.NewReader("{}\n")); err == nil || !strings.Contains(err.Error(), "x:1") {
		t.Errorf("a line without digest: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, bases := range [][]string{nil, {"localhost:8000"}, {"ftp://x"}, {"http://u:secret@"}, {"@/does/not/exist"},
		{"u:secret@h:8000/v1"}, {"secret@h:80"}, {"//u:secret@h/v1"}, {"http:/u:secret@h/v1"}, {"http:u:secret@h/v1"}, {`http:\\u:secret@h`},
		{"http://u:the secret@h/v1"}, {"http://u:secret%40h/v1"}, {"http://u%3Asecret%40h/v1"}, {"h:80/v1?key=secret"}, {" http://u:secret@h/v1 "},
		{"http://a/v1?api-version=1"},
		{"http://u:secret@h/v1"},
		{"http://secret@h/v1"},
		{"http://h/v1?key=secret"},
		{"http://u:se%zzcret@h"},
		{"http://u:secret/@h"},
		{"http://u:secret@a/v1#x"},
		{"http://a/v1,http://u:secret@b/v1"},
		{"http://a/v1?"}} {
		_, err := wire.New(wire.Options{Bases: bases})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bases, err)
		}
	}
}

// TestErrorsHoldNoKey: what a server or the way to it says of our key is in no error, wherever
// the text is cut, and a list of models with the key in it is no answer.
func TestErrorsHoldNoKey(t *testing.T) {
	const key = "sk-A1b2C3d4E5f6G7h8"
	for before := 0; before < 1200; before += 7 {
		text := strings.Repeat("x", before) + key
		for _, status := range []int{0, 200, 400} {
			tr := &trip{f: func(int, *http.Request) (*http.Response, error) {
				if status == 0 {
					return nil, errors.New("the proxy says " + text)
				}
				return respond(status, text), nil
			}}
			c := client(t, tr, wire.Options{Keys: []string{key}, Retries: -1})
			_, did := c.Do(t.Context(), &wire.Request{}, fetch)
			_, got := c.Get(t.Context(), "/models")
			for _, err := range []error{did, got} {
				var e *wire.Error
				if !errors.As(err, &e) || (e.Kind == wire.Leaked) != (status == 200) || strings.Contains(err.Error(), key[:8]) {
					t.Fatalf("%d with the key behind %d bytes: %v", status, before, err)
				}
			}
		}
	}
}

package api_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/atropos/api"
)

// TestMemoryOfABody posts a group of 4 MB: all that is ever allocated for it is at most
// 1.2 times its size. What stays when it is on disk is far less: see TestMemory.
func TestMemoryOfABody(t *testing.T) {
	s := ready(t, api.Options{})
	body := large(300_000)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/scored_data", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	grown := int64(after.TotalAlloc - before.TotalAlloc)
	t.Logf("%d bytes allocated for a body of %d", grown, len(body))
	if grown > int64(len(body))*6/5 {
		t.Errorf("%d bytes are allocated for a body of %d", grown, len(body))
	}
}

// noted is a body that counts what was read of it.
type noted struct {
	io.Reader
	read *atomic.Int64
}

func (n noted) Read(p []byte) (int, error) {
	k, err := n.Reader.Read(p)
	n.read.Add(int64(k))
	return k, err
}

// TestBodiesWaitForMemory holds a body when some of it has come. Where next to nothing has,
// others pass it, whatever it says that it will be; where it has filled the memory, another
// one waits, all but unread, until it is done.
func TestBodiesWaitForMemory(t *testing.T) {
	body := large(45_000) // 630 kB
	for _, tt := range []struct {
		arrived int
		waits   bool
	}{{1, false}, {1000, false}, {60_000, false}, {600_000, true}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s, _, err := api.Open(api.Options{Dir: dir, Memory: 5 << 18})
			if err != nil {
				t.Fatal(err)
			}
			post := func(r io.Reader) {
				q := httptest.NewRequestWithContext(t.Context(), "POST", "/scored_data", r)
				q.ContentLength = int64(len(body))
				q.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, q); w.Code != 200 {
					t.Error(w.Code, w.Body)
				}
			}
			var g gate
			var second atomic.Int64
			var wg sync.WaitGroup
			g.shut()
			wg.Go(func() {
				post(&slowBody{strings.NewReader(body[:tt.arrived]), strings.NewReader(body[tt.arrived:]), &g})
			})
			<-g.here
			wg.Go(func() { post(noted{strings.NewReader(body), &second}) })
			synctest.Wait()
			if n := second.Load(); tt.waits != (n < int64(len(body))/8) {
				t.Errorf("%d bytes of the first have come, and %d of the second were read", tt.arrived, n)
			}
			g.open()
			wg.Wait()
			if n := second.Load(); n != int64(len(body)) {
				t.Errorf("%d bytes of the second were read in the end", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBodiesShareMemory posts many bodies at once, piece by piece, that do not fit into the
// memory together: each gets in, none is refused, and they never take more than there is.
func TestBodiesShareMemory(t *testing.T) {
	dir := t.TempDir()
	body := large(45_000)
	synctest.Test(t, func(t *testing.T) {
		s, _, err := api.Open(api.Options{Dir: dir, Memory: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for k := range 40 {
			wg.Go(func() {
				q := httptest.NewRequestWithContext(t.Context(), "POST", "/scored_data", &pieces{rest: body, pause: time.Duration(k%7+1) * time.Millisecond})
				q.ContentLength = int64(len(body))
				if k%3 == 0 {
					q.ContentLength = -1
				}
				q.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, q); w.Code != 200 {
					t.Error(k, w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if held := api.Held(s); held != 0 {
			t.Errorf("%d bytes are held in the end", held)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pieces is a body that comes in pieces of 8 kB.
type pieces struct {
	rest  string
	pause time.Duration
}

func (p *pieces) Read(b []byte) (int, error) {
	<-time.After(p.pause) // of the bubble
	n := copy(b[:min(len(b), 8000)], p.rest)
	p.rest = p.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestBombs: what inflates to very much more than its size is given up after some
// megabytes; what repeats itself as honest groups do is taken.
func TestBombs(t *testing.T) {
	p := serve(t, api.Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, text := range map[string]string{
		"spaces":         strings.Repeat(" ", 256<<20),
		"valid":          `{"tokens":[[` + strings.Repeat("1,", 64<<20) + `1]],"masks":[[1]],"scores":[1]}`,
		"behind a group": scored(1, 2, -1) + strings.Repeat("\n", 64<<20),
	} {
		z := zipped(t, text)
		status, said, _ := p.do("POST", "/scored_data", z, "Content-Encoding", "gzip")
		if status != 413 || !strings.Contains(said, "64 times") {
			t.Errorf("%s, %d bytes: %d %s", name, len(z), status, said)
		}
		if status, said, _ := p.do("POST", "/register", z, "Content-Encoding", "gzip"); status != 413 {
			t.Errorf("register %s: %d %s", name, status, said)
		}
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d MB of memory from the system", (after.Sys-before.Sys)>>20)
	var row strings.Builder // a third of it says nothing new
	for k := range 400_000 {
		fmt.Fprintf(&row, "%d,", (k*7919)%151_000)
	}
	tokens, masks := row.String()+"5", strings.Repeat("-100, ", 400_000)+"5"
	status, said, _ := p.do("POST", "/scored_data", zipped(t,
		`{"tokens":[[`+tokens+`]],"masks":[[`+masks+`]],"inference_logprobs":[[`+strings.Repeat("1.0, ", 400_000)+`1]],"scores":[1]}`),
		"Content-Encoding", "gzip")
	if status != 200 {
		t.Error(status, said)
	}
}

// TestSmallBodies: a registration is no place for a large body.
func TestSmallBodies(t *testing.T) {
	p := serve(t, api.Options{})
	for _, path := range []string{"/register", "/register-env", "/disconnect-env", "/ack"} {
		if status, said, _ := p.do("POST", path, zipped(t, `{"a":"`+strings.Repeat("x", 300<<10)+`"}`), "Content-Encoding", "gzip"); status != 413 ||
			!strings.Contains(said, "262144") {
			t.Error(path, status, said)
		}
	}
}

// TestNamesAreShort: what is kept of each registration is bounded.
func TestNamesAreShort(t *testing.T) {
	p := serve(t, api.Options{})
	p.do("POST", "/register", trainer(2))
	p.do("GET", "/batch", "")
	long := strings.Repeat("x", 1025)
	for _, body := range []string{env(long, 2, ""), env("e", 2, `,"instance":"`+long+`"`)} {
		if status, said, _ := p.do("POST", "/register-env", body); status != 422 || !strings.Contains(said, "string_too_long") {
			t.Errorf("%d %.200s", status, said)
		}
	}
	if status, said, _ := p.do("POST", "/register-env", env(long[:1024], 2, "")); status != 200 {
		t.Errorf("%d %.200s", status, said)
	}
}

// TestBodiesLargerThanTheySeem sends more than the memory without saying so before: it is
// refused, with what to do.
func TestBodiesLargerThanTheySeem(t *testing.T) {
	p := serve(t, api.Options{Memory: 2 << 20})
	status, text, _ := p.do("POST", "/scored_data", zipped(t, `{"tokens":[[1]],"masks":[[1]],"scores":[1],"images":"`+strings.Repeat("0", 8<<20)+`"}`),
		"Content-Encoding", "gzip")
	if status != 503 || !strings.Contains(text, "--memory") {
		t.Error(status, text)
	}
}

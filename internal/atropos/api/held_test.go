package api_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"hermes/internal/atropos/api"
	"hermes/internal/atropos/store"
)

// gate holds whoever comes while it is shut.
type gate struct {
	mu   sync.Mutex
	held chan struct{} // nil: open
	here chan struct{} // somebody is held
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.here = make(chan struct{}), make(chan struct{}, 100)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.held)
	g.held = nil
}

func (g *gate) pass() {
	g.mu.Lock()
	held, here := g.held, g.here
	g.mu.Unlock()
	if held != nil {
		here <- struct{}{}
		<-held
	}
}

// call does a request on the server itself, without a network.
func call(t *testing.T, s *api.Server, method, path string, body io.Reader) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

// othersAnswer asks everything that has nothing to wait for. Were a lock held meanwhile by
// what is at the gate, this would never return.
func othersAnswer(t *testing.T, s *api.Server) {
	t.Helper()
	for _, path := range []string{"/", "/status", "/info", "/wandb_info", "/metrics", "/dashboard", "/latest_example", "/status-env?env_id=0"} {
		call(t, s, "GET", path, nil)
	}
}

// ready is a server with a trainer, an environment and a queued group.
func ready(t *testing.T, o api.Options) *api.Server {
	t.Helper()
	o.Dir = t.TempDir()
	s, _, err := api.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	call(t, s, "POST", "/register", strings.NewReader(trainer(2)))
	call(t, s, "GET", "/batch", nil)
	call(t, s, "POST", "/register-env", strings.NewReader(`{"max_token_length":100,"desired_name":"e","weight":1,"group_size":1}`))
	call(t, s, "POST", "/scored_data", strings.NewReader(scored(1, 1, -1)))
	return s
}

// TestOthersAnswerDuringSync holds an fsync: posts wait for it, and nothing else does.
func TestOthersAnswerDuringSync(t *testing.T) {
	var g gate
	s := ready(t, api.Options{Store: store.Options{Sync: func(f *os.File) error { g.pass(); return f.Sync() }}})
	g.shut()
	var wg sync.WaitGroup
	for k := range 3 {
		wg.Go(func() { call(t, s, "POST", "/scored_data", strings.NewReader(scored(k+2, 1, -1))) })
	}
	<-g.here
	othersAnswer(t, s)
	g.open()
	wg.Wait()
}

// TestOthersAnswerDuringCompaction holds the sync of a new log: posts are answered too.
func TestOthersAnswerDuringCompaction(t *testing.T) {
	var g gate
	s := ready(t, api.Options{Compact: 1 << 10, Store: store.Options{Sync: func(f *os.File) error {
		if strings.HasSuffix(f.Name(), ".new") {
			g.pass()
		}
		return f.Sync()
	}}})
	g.shut()
	post := func(k int) { call(t, s, "POST", "/scored_data", strings.NewReader(scored(k, 1, -1))) }
	k := 2
	for held := false; !held; k++ { // until the log is long enough
		post(k)
		select {
		case <-g.here:
			held = true
		default:
		}
	}
	othersAnswer(t, s)
	post(k)
	if text := call(t, s, "GET", "/batch", nil); len(groupIDs(text)) == 0 {
		t.Error(text)
	}
	g.open()
}

// stuck is a client that takes nothing after its first bytes.
type stuck struct {
	httptest.ResponseRecorder
	g *gate
}

func (w *stuck) Write(b []byte) (int, error) { w.g.pass(); return w.ResponseRecorder.Write(b) }

// TestOthersAnswerDuringBatch holds the writing of a batch, to one client in front of its
// first byte: posts and other batches go on.
func TestOthersAnswerDuringBatch(t *testing.T) {
	var g gate
	s := ready(t, api.Options{})
	for k := range 3 {
		call(t, s, "POST", "/scored_data", strings.NewReader(scored(k+2, 1, -1)))
	}
	g.shut()
	w := &stuck{*httptest.NewRecorder(), &g}
	var wg sync.WaitGroup
	wg.Go(func() { s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/batch", nil)) })
	<-g.here
	othersAnswer(t, s)
	if ids := groupIDs(call(t, s, "GET", "/batch", nil)); ids != "[1 2]" {
		t.Errorf("the other batch: %s", ids)
	}
	call(t, s, "POST", "/scored_data", strings.NewReader(scored(7, 1, -1)))
	g.open()
	wg.Wait()
	if ids := groupIDs(w.Body.String()); ids != "[3 4]" {
		t.Errorf("the batch that was held: %s", ids)
	}
}

// TestOthersAnswerDuringForming holds the forming of batches: posts are answered too, and
// what they brought is not forgotten.
func TestOthersAnswerDuringForming(t *testing.T) {
	var g gate
	s := ready(t, api.Options{})
	s.BeforeForming(g.pass)
	post := func(k int) { call(t, s, "POST", "/scored_data", strings.NewReader(scored(k, 1, -1))) }
	post(2)
	g.shut()
	var got string
	var wg sync.WaitGroup
	wg.Go(func() { got = groupIDs(call(t, s, "GET", "/batch", nil)) })
	<-g.here
	othersAnswer(t, s)
	post(3)
	post(4)
	call(t, s, "POST", "/disconnect-env", strings.NewReader(`{"env_id":0}`)) // the forming is void
	g.open()
	wg.Wait()
	if got != "[3 4]" {
		t.Errorf("the batch that was asked for: %s", got)
	}
	if ids := groupIDs(call(t, s, "GET", "/batch", nil)); ids != "[1 2]" {
		t.Errorf("the next batch: %s", ids)
	}
}

// slowBody is a body whose second half is held.
type slowBody struct {
	first, rest io.Reader
	g           *gate
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.first.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	b.g.pass()
	return b.rest.Read(p)
}

// TestOthersAnswerDuringPost holds a body of some megabytes in its middle.
func TestOthersAnswerDuringPost(t *testing.T) {
	var g gate
	s := ready(t, api.Options{})
	body := []byte(large(300_000))
	half := len(body) / 2
	g.shut()
	var wg sync.WaitGroup
	wg.Go(func() {
		call(t, s, "POST", "/scored_data", &slowBody{bytes.NewReader(body[:half]), bytes.NewReader(body[half:]), &g})
	})
	<-g.here
	othersAnswer(t, s)
	call(t, s, "POST", "/scored_data", strings.NewReader(scored(2, 1, -1)))
	g.open()
	wg.Wait()
}

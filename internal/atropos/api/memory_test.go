package api_test

import (
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

// noted is a body that tells when it is read.
type noted struct {
	io.Reader
	read *atomic.Bool
}

func (n noted) Read(p []byte) (int, error) { n.read.Store(true); return n.Reader.Read(p) }

// TestBodiesWaitForMemory holds a body that takes most of the memory: another waits, not
// read, until it is done.
func TestBodiesWaitForMemory(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _, err := api.Open(api.Options{Dir: dir, Memory: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		body := large(45_000) // 630 kB
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
		var second atomic.Bool
		var wg sync.WaitGroup
		g.shut()
		wg.Go(func() { post(&slowBody{strings.NewReader(body[:1000]), strings.NewReader(body[1000:]), &g}) })
		<-g.here
		wg.Go(func() { post(noted{strings.NewReader(body), &second}) })
		synctest.Wait()
		if second.Load() {
			t.Error("a second body is read while the first has the memory")
		}
		g.open()
		wg.Wait()
		if !second.Load() {
			t.Error("the second body was not read")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBodiesLargerThanTheySeem sends more than the memory without saying so before: it is
// refused, with what to do.
func TestBodiesLargerThanTheySeem(t *testing.T) {
	p := serve(t, api.Options{Memory: 2 << 20})
	status, text, _ := p.do("POST", "/scored_data", zipped(t, `{"tokens":[[1]],"masks":[[1]],"scores":[1],"images":"`+strings.Repeat("0", 8<<20)+`"}`), "Content-Encoding", "gzip")
	if status != 503 || !strings.Contains(text, "--memory") {
		t.Error(status, text)
	}
}

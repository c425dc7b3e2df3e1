package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/atropos/api"
	"hermes/internal/atropos/store"
)

// large is a group of one sequence of n tokens of seven bytes each, twice.
func large(n int) string {
	ids := "[" + strings.Repeat("100000,", n-1) + "100000]"
	return `{"tokens":[` + ids + `],"masks":[` + ids + `],"scores":[1]}`
}

// until reads a page again and again until it holds a text: a client has its last byte
// a little before the server counts it.
func (p *peer) until(path, text string) string {
	p.t.Helper()
	for page := ""; ; {
		if strings.Contains(page, text) || p.t.Context().Err() != nil {
			return page
		}
		_, page, _ = p.do("GET", path, "")
	}
}

// TestBrokenConnection leaves in the middle of a batch: it comes again, and once.
func TestBrokenConnection(t *testing.T) {
	p := serve(t, api.Options{})
	p.do("POST", "/register", trainer(1))
	if status, body, _ := p.do("POST", "/scored_data", large(1_000_000)); status != 200 {
		t.Fatal(status, body)
	}
	resp, err := http.Get(p.http.URL + "/batch")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // most of 14 MB is not read
	var body string
	for body = `{"batch":null}`; body == `{"batch":null}`; { // until the server has seen it
		_, body, _ = p.do("GET", "/batch", "")
	}
	if !strings.HasPrefix(body, `{"batch":[{"tokens":[[100000,100000,`) || !strings.HasSuffix(body, `"distill_logprobs":null}]}`) {
		t.Errorf("%.60s… of %d bytes", body, len(body))
	}
	if _, body, _ := p.do("GET", "/batch", ""); body != `{"batch":null}` {
		t.Errorf("the batch comes a third time: %.60s", body)
	}
	m := p.until("/metrics", "\nhermes_run_api_batches_total 1\n")
	if !strings.Contains(m, "\nhermes_run_api_redelivered_total 1\n") {
		t.Error(m)
	}
}

func TestAcknowledging(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, api.Options{Dir: dir, FIFO: true})
	p.do("POST", "/register", trainer(1))
	for k := range 3 {
		p.do("POST", "/scored_data", scored(k+1, 1, -1))
	}
	first := func(p *peer, query, want string) {
		t.Helper()
		if _, body, _ := p.do("GET", "/batch?"+query, ""); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", query, body, want)
		}
	}
	first(p, "holder=a", `"batch_id":1}`)
	first(p, "holder=a", `"batch_id":1}`)
	first(p, "holder=b", `"batch_id":2}`)
	first(p, "holder=a&ack=1", `"batch_id":3}`)
	first(p, "holder=a&ack=x", "not the number")
	first(p, "holder=a&ack=77", "never handed out")
	p.close()
	again, _, err := api.Open(api.Options{Dir: dir, FIFO: true})
	if err != nil {
		t.Fatal(err)
	}
	p.api = again
	p.http = newServer(again)
	first(p, "holder=b", `"batch_id":2}`) // neither 2 nor 3 was acknowledged
	for range 2 {
		if status, body, _ := p.do("POST", "/ack", `{"batch_id":3}`); status != 200 {
			t.Error(status, body)
		}
	}
	first(p, "holder=b&ack=2", `{"batch":null}`)
	if status, _, _ := p.do("POST", "/ack", `{"batch_id":0}`); status != 422 {
		t.Error(status)
	}
}

func TestIdempotency(t *testing.T) {
	p := serve(t, api.Options{})
	p.do("POST", "/register", trainer(1))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if status, body, _ := p.do("POST", "/scored_data_list", "["+scored(1, 1, -1)+"]", "Idempotency-Key", "one"); status != 200 ||
				!sameJSON(body, `{"status":"received","groups_processed":1}`) {
				t.Error(status, body)
			}
		})
	}
	wg.Wait()
	if _, body, _ := p.do("GET", "/status", ""); !strings.Contains(body, `"queue_size":1`) {
		t.Error(body)
	}
}

// TestBackPressure fills the room for groups: a post waits until a batch has gone, and is
// refused when none goes.
func TestBackPressure(t *testing.T) {
	p := serve(t, api.Options{MaxQueue: 100, Patience: time.Millisecond})
	p.do("POST", "/register", trainer(1))
	p.do("POST", "/scored_data", scored(1, 1, -1))
	status, body, h := p.do("POST", "/scored_data", scored(2, 1, -1))
	if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(body, "--max-queue") {
		t.Error(status, body)
	}
	patient := serve(t, api.Options{MaxQueue: 100, Patience: time.Hour})
	patient.do("POST", "/register", trainer(1))
	patient.do("POST", "/scored_data", scored(1, 1, -1))
	var wg sync.WaitGroup
	wg.Go(func() {
		if status, body, _ := patient.do("POST", "/scored_data", scored(2, 1, -1)); status != 200 {
			t.Error(status, body)
		}
	})
	patient.until("/metrics", "\nhermes_run_api_waited_total 1\n")
	if _, body, _ := patient.do("GET", "/batch", ""); groupIDs(body) != "[1]" {
		t.Error(body)
	}
	wg.Wait()
	if _, body, _ := patient.do("GET", "/batch", ""); groupIDs(body) != "[2]" {
		t.Error(body)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	p := serve(t, api.Options{MaxBody: 200})
	for _, header := range [][]string{nil, {"Content-Encoding", "gzip"}} {
		body := scored(1, 100, -1)
		if header != nil {
			body = zipped(t, body)
		}
		if status, text, _ := p.do("POST", "/scored_data", body, header...); status != 413 || !strings.Contains(text, "--max-body") {
			t.Error(status, text)
		}
	}
}

// TestDamage changes a byte of a segment: the group is dropped, its batch never arrives
// whole, and the rest comes in a later one.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, api.Options{Dir: dir})
	p.do("POST", "/register", trainer(2))
	for k := range 3 {
		p.do("POST", "/scored_data", scored(k+1, 1, -1))
	}
	name := filepath.Join(dir, "00000000.groups")
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("9"), int64(bytes.IndexByte(raw, '1'))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(p.http.URL + "/batch"); err == nil {
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("a damaged batch arrives whole")
		}
		resp.Body.Close()
	}
	var body string
	for body = `{"batch":null}`; body == `{"batch":null}`; {
		_, body, _ = p.do("GET", "/batch", "")
	}
	if groupIDs(body) != "[2 3]" {
		t.Error(body)
	}
}

// TestMany posts and fetches at the same time: each group arrives once.
func TestMany(t *testing.T) {
	p := serve(t, api.Options{Store: store.Options{Segment: 4 << 10}})
	p.do("POST", "/register", trainer(4))
	const envs, each = 4, 50
	var wg sync.WaitGroup
	for e := range envs {
		wg.Go(func() {
			for k := range each {
				if status, body, _ := p.do("POST", "/scored_data", scored(1000*(e+1)+k, 2, -1)); status != 200 {
					t.Error(status, body)
				}
			}
		})
	}
	seen := map[int]int{}
	rng := rand.New(rand.NewPCG(1, 1))
	for len(seen) < envs*each {
		_, body, _ := p.do("GET", fmt.Sprintf("/batch?%d", rng.IntN(9)), "")
		var b struct {
			Batch []struct{ Tokens [][]int }
		}
		if err := json.Unmarshal([]byte(body), &b); err != nil {
			t.Fatal(err)
		}
		for _, g := range b.Batch {
			seen[g.Tokens[0][0]]++
			if seen[g.Tokens[0][0]] > 1 {
				t.Fatalf("group %d comes twice", g.Tokens[0][0])
			}
		}
	}
	wg.Wait()
	p.until("/dashboard", "100 batches, 400 sequences")
}

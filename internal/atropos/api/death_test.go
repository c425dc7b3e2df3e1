package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/internal/atropos/api"
)

// figure is a figure of /metrics.
func (p *peer) figure(name string) (n int) {
	p.t.Helper()
	_, page, _ := p.do("GET", "/metrics", "")
	_, rest, _ := strings.Cut(page, "\nhermes_run_api_"+name+" ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		p.t.Fatalf("%s: %v in %s", name, err, page)
	}
	return n
}

// tight serves over sockets that take little in advance, so that a client that leaves in
// the middle of an answer leaves before its last byte is sent.
func tight(s *api.Server) *httptest.Server {
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetWriteBuffer(4 << 10) // else the test says less
		}
		return ctx
	}
	srv.Start()
	return srv
}

// TestTrainerDeaths lets a trainer that does not acknowledge die again and again: in the
// middle of a batch, or with one in hand that it has or has not trained on; between deaths
// the server is started again. No batch is trained on twice. Those that were not trained on
// are no more than the server counts as lost: at most one for each death.
func TestTrainerDeaths(t *testing.T) {
	dir := t.TempDir()
	p := serve(t, api.Options{Dir: dir, FIFO: true})
	p.http.Close()
	p.http = tight(p.api)
	rng := rand.New(rand.NewPCG(5, 5))
	const batches = 16
	p.do("POST", "/register", trainer(1))
	for k := range batches {
		body := strings.Replace(large(40_000), "100000", fmt.Sprint(200_000+k), 1)
		if status, text, _ := p.do("POST", "/scored_data", body); status != 200 {
			t.Fatal(status, text)
		}
	}
	trained, deaths := map[int]int{}, 0
	die := func() {
		deaths++
		if rng.IntN(4) == 0 {
			p.close()
			s, _, err := api.Open(api.Options{Dir: dir, FIFO: true})
			if err != nil {
				t.Fatal(err)
			}
			p.api, p.http = s, tight(s)
		}
		if status, text, _ := p.do("POST", "/register", trainer(1)); status != 200 {
			t.Fatal(status, text)
		}
	}
	for p.figure("batches_total") < batches {
		if rng.IntN(4) == 0 { // it dies while it gets one
			r, err := http.NewRequest("GET", p.http.URL+"/batch", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept-Encoding", "identity")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for p.figure("batches_leased") > 0 { // until the server has seen it
			}
			die()
			continue
		}
		before := p.figure("batches_total")
		_, body, _ := p.do("GET", "/batch", "")
		var b struct {
			Batch []struct{ Tokens [][]int }
		}
		if err := json.Unmarshal([]byte(body), &b); err != nil {
			t.Fatal(err)
		}
		if len(b.Batch) == 0 {
			continue
		}
		for p.figure("batches_total") == before { // it is counted a little after its last byte
		}
		fate := rng.IntN(4)
		if fate > 0 {
			trained[b.Batch[0].Tokens[0][0]]++
		}
		if fate < 2 { // it dies with one in hand
			die()
		}
	}
	lost := p.figure("lost_batches_total")
	for id, n := range trained {
		if n > 1 {
			t.Errorf("batch %d is trained on %d times", id, n)
		}
	}
	if missing := batches - len(trained); missing > lost || lost > deaths || lost == 0 {
		t.Errorf("%d of %d batches were trained on in %d deaths, and %d are counted as lost", len(trained), batches, deaths, lost)
	}
	if _, page, _ := p.do("GET", "/dashboard", ""); !strings.Contains(page, fmt.Sprintf("%d batches</td>", lost)) {
		t.Errorf("the page does not say that %d batches are lost", lost)
	}
	t.Logf("%d deaths, %d batches lost, %d sent again", deaths, lost, p.figure("redelivered_total"))
}

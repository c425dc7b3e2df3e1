package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/fakellm"
	"hermes/rollout/policy/wire"
)

// inside is a transport to a server in the same bubble, so that its time is simulated.
type inside struct {
	server  http.Handler
	metrics bool
}

func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/metrics" && !t.metrics {
		return respond(404, ""), nil
	}
	w := httptest.NewRecorder()
	t.server.ServeHTTP(w, r)
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// load keeps n askers busy for a time and counts what the server answered in the part of
// it that begins after settle.
type load struct {
	server fakellm.Options
	client wire.Options
	blind  bool // the server has no metrics
	askers int
	settle time.Duration
	lasts  time.Duration
}

type served struct {
	perSecond float64
	refused   float64 // share of requests
	timeouts  int64   // and other failures
	limit     int
}

func (l load) run(t *testing.T, seed uint64) (out served) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l.server.Seed = seed
		s, err := fakellm.New(l.server)
		if err != nil {
			t.Fatal(err)
		}
		l.client.Bases, l.client.Transport, l.client.Seed = []string{"http://one/v1"}, inside{s, !l.blind}, seed
		l.client.Concurrency, l.client.LimitedRetries = l.askers, 1000
		c, err := wire.New(l.client)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Watch(t.Context(), time.Second) == l.blind {
			t.Errorf("watched: %v", !l.blind)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i := range l.askers {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d %d"}]}`, i, n)
					r := wire.Request{Path: "/chat/completions", Body: newText(body)}
					if _, err := c.Do(ctx, &r, fetch); err != nil && ctx.Err() == nil {
						failed.Add(1)
					}
				}
			})
		}
		time.Sleep(l.settle)
		before, tries := s.Stats(), c.Stats()
		time.Sleep(l.lasts)
		after, more := s.Stats(), c.Stats()
		out = served{
			perSecond: float64(after.Answers-before.Answers) / l.lasts.Seconds(),
			refused:   float64(after.Limited-before.Limited) / float64(more.Attempts-tries.Attempts),
			timeouts:  failed.Load() + more.Retries - after.Limited,
			limit:     c.Loads()[0].Limit,
		}
		stop()
		wg.Wait()
	})
	return out
}

// A server with an unknown capacity and an endless queue. It slows down the more it holds.
func TestCapacityIsFound(t *testing.T) {
	const capacity, seconds = 24, 2
	for _, blind := range []bool{false, true} {
		l := load{askers: 192, blind: blind, settle: 30 * time.Second, lasts: 2 * time.Minute,
			server: fakellm.Options{Capacity: capacity, Latency: fakellm.Latency{Median: seconds * time.Second}},
			client: wire.Options{Retries: 5, Whole: 25 * time.Second}}
		if !blind {
			l.server.Degrade = 0.5
			l.server.Latency.Sigma = 0.4
		}
		best := bestOf(t, l, capacity)
		for seed := range uint64(20) {
			got := l.run(t, seed)
			t.Logf("blind %v, seed %d: %.3f of the best", blind, seed, got.perSecond/best)
			if got.perSecond < 0.95*best || got.timeouts > 0 {
				t.Errorf("blind %v, seed %d: %.2f answers a second of %.2f, %d time-outs, limit %d for a capacity of %d",
					blind, seed, got.perSecond, best, got.timeouts, got.limit, capacity)
			}
		}
	}
}

// A server that refuses what is above a limit that it does not tell.
func TestHiddenLimitIsFound(t *testing.T) {
	const limit = 40
	l := load{askers: 256, blind: true, settle: time.Minute, lasts: 2 * time.Minute,
		server: fakellm.Options{Limit: limit, Latency: fakellm.Latency{Median: 2 * time.Second, Sigma: 0.4}}}
	best := bestOf(t, l, limit)
	for seed := range uint64(20) {
		got := l.run(t, seed)
		t.Logf("seed %d: %.3f of the best, %.2f %% refused", seed, got.perSecond/best, 100*got.refused)
		if got.perSecond < 0.95*best || got.refused > 0.01 {
			t.Errorf("seed %d: %.2f answers a second of %.2f, %.2f %% refused, limit %d of %d",
				seed, got.perSecond, best, 100*got.refused, got.limit, limit)
		}
	}
}

// bestOf is what the server does when exactly as many ask as it can serve.
func bestOf(t *testing.T, l load, askers int) float64 {
	t.Helper()
	l.askers, l.blind = askers, true
	return l.run(t, 1000).perSecond
}

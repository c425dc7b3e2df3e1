package wire_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/rollout/policy/wire"
)

// TestLoads: what waits for a server, and why.
func TestLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{f: func(n int, _ *http.Request) (*http.Response, error) {
			switch {
			case n < 2:
				return respond(503, `{"error":{"message":"no"}}`), nil
			case n < 3:
				return respond(429, "", "Retry-After", "9"), nil
			}
			<-time.After(20 * time.Second)
			return respond(200, "{}"), nil
		}}
		c := client(t, tr, wire.Options{Concurrency: 4})
		var all sync.WaitGroup
		ask := func(n int) {
			for range n {
				all.Go(func() {
					if _, err := c.Do(t.Context(), &wire.Request{}, fetch); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
		}
		ask(3)
		l := c.Loads()[0]
		if l.Again["unavailable, status 503"] != 2 || l.Again["limited, status 429"] != 1 || len(l.Again) != 2 || l.Longest != 9*time.Second ||
			l.Flying != 0 || l.Most != 4 {
			t.Errorf("three that were refused: %+v", l)
		}
		if l.Pause != 9*time.Second {
			t.Errorf("three refusals in a row, the last with Retry-After: a pause of %s", l.Pause)
		}
		ask(2)
		l = c.Loads()[0]
		if l.Queued == 0 {
			t.Errorf("two more in the pause: %+v", l)
		}
		all.Wait()
		l = c.Loads()[0]
		if l.Again != nil || l.Longest != 0 || l.Flying != 0 || l.Queued != 0 || l.Pause != 0 {
			t.Errorf("at the end: %+v", l)
		}
	})
}

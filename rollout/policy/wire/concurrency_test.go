package wire_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/rollout/policy/wire"
)

// TestSetConcurrency: those that wait go on at once under a larger number; under a smaller
// one nothing is cut off, and fewer are begun.
func TestSetConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{f: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Second)
			return respond(200, "{}"), nil
		}}
		c := client(t, tr, wire.Options{Concurrency: 2})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := c.Do(t.Context(), &wire.Request{}, fetch); err != nil {
					t.Error(err)
				}
			})
		}
		flying := func(want int) {
			t.Helper()
			synctest.Wait()
			if l := c.Loads()[0]; l.Flying != want {
				t.Errorf("%d in flight, want %d", l.Flying, want)
			}
		}
		flying(2)
		c.SetConcurrency(7)
		flying(7)
		c.SetConcurrency(3)
		flying(7)
		time.Sleep(11 * time.Second)
		flying(3)
		all.Wait()
	})
}

package pool_test

import (
	"testing"
	"testing/synctest"

	"hermes/backends"
	"hermes/backends/pool"
)

// TestSetMax: those that wait get their boxes when there may be more.
func TestSetMax(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 1}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		got := make(chan backends.Sandbox, 5)
		for range 5 {
			go func() {
				b, err := p.Open(t.Context(), backends.Spec{})
				if err != nil {
					t.Error(err)
				}
				got <- b
			}()
		}
		live := func(want int) {
			t.Helper()
			synctest.Wait()
			if _, n := d.count(); n != want {
				t.Errorf("%d boxes, want %d", n, want)
			}
		}
		live(1)
		p.SetMax(4)
		live(4)
		if n := p.Traits().Slots; n != 4 {
			t.Errorf("it says that it has %d places", n)
		}
		p.SetMax(2)
		for range 3 { // those that are there stay until they are given back
			if b := <-got; b.Close(t.Context()) != nil {
				t.Error("close")
			}
		}
		live(2)
		for range 2 {
			if b := <-got; b.Close(t.Context()) != nil {
				t.Error("close")
			}
		}
	}))
}

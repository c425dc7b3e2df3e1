package backends_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
)

// places is how many places a queue has.
func places() int { return 12 * runtime.GOMAXPROCS(0) }

// fill takes n places of a queue and returns what gives them back.
func fill(t *testing.T, s *backends.Starts, n int) (leave []func()) {
	t.Helper()
	for range n {
		back, err := s.Wait(t.Context(), "exec")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, back)
	}
	return leave
}

func TestStartsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := backends.NewStarts()
		held := fill(t, s, places())
		var order []int
		for i := range 5 {
			go func() {
				leave, err := s.Wait(t.Context(), "exec")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one place is free at a time
				leave()
				leave() // a second time is allowed
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v began while all places were taken", order)
		}
		held[0]()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("they began in the order %v", order)
		}
		for _, leave := range held {
			leave()
		}
	})
}

func TestStartsPassLongCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := backends.NewStarts()
		held := fill(t, s, places())
		began := time.Now()
		leave, err := s.Wait(t.Context(), "exec")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 50*time.Millisecond {
			t.Errorf("a command waited %v for others that do not end", waited)
		}
		for _, back := range held {
			back() // their places are not given back twice
		}
		again := fill(t, s, places()-1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Wait(ctx, "exec"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more places than there are: %v", err)
		}
		leave()
		for _, back := range again {
			back()
		}
	})
}

package backends_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
)

func TestHeldBooks(t *testing.T) {
	var h backends.Held[int]
	for i := range 3 {
		_, end, err := h.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.Add(i)
		end()
		end() // twice is harmless
	}
	if !h.Drop(1) || h.Drop(1) {
		t.Error("a box is dropped once")
	}
	all := h.All()
	slices.Sort(all)
	if !slices.Equal(all, []int{0, 2}) {
		t.Errorf("all: %v", all)
	}
	bad := errors.New("stuck")
	closing := func(_ context.Context, x int) error {
		if x == 2 {
			return bad
		}
		h.Drop(x)
		return nil
	}
	if err := h.Close(t.Context(), closing); !errors.Is(err, bad) {
		t.Errorf("close: %v", err)
	}
	if _, _, err := h.Begin(t.Context()); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("begin after close: %v", err)
	}
	if all := h.All(); !slices.Equal(all, []int{2}) {
		t.Errorf("what could not be closed stays in the books: %v", all)
	}
}

// TestHeldShutCancelsOpenings: an opening that hangs does not hang Close.
func TestHeldShutCancelsOpenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h backends.Held[int]
		opening, end, err := h.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-opening.Done()
			if !errors.Is(context.Cause(opening), backends.ErrClosed) {
				t.Errorf("cause %v", context.Cause(opening))
			}
			h.Add(7) // it came after all
			end()
		}()
		closed := 0
		if err := h.Close(t.Context(), func(context.Context, int) error { closed++; return nil }); err != nil || closed != 1 {
			t.Errorf("closed %d, %v", closed, err)
		}
	})
}

func TestHeldWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h backends.Held[int]
		_, end, err := h.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := h.Close(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		end()
	})
}

// TestHeldRace: whatever was begun before the end is closed, nothing after it begins.
func TestHeldRace(t *testing.T) {
	for range 50 {
		var h backends.Held[int64]
		var serial, closed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					_, end, err := h.Begin(context.Background())
					if err != nil {
						return
					}
					h.Add(serial.Add(1))
					end()
				}
			})
		}
		for serial.Load() < 20 {
			runtime.Gosched()
		}
		if err := h.Close(t.Context(), func(_ context.Context, x int64) error {
			closed.Add(1)
			h.Drop(x)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if serial.Load() != closed.Load() || len(h.All()) != 0 {
			t.Fatalf("%d made, %d closed, %d left", serial.Load(), closed.Load(), len(h.All()))
		}
	}
}

func TestHeldRetry(t *testing.T) {
	var h backends.Held[int]
	for x := range 4 {
		h.Add(x)
	}
	closing := func(_ context.Context, x int) error {
		if x == 2 {
			return errors.New("it stays")
		}
		h.Drop(x)
		return nil
	}
	gone, err := h.Retry(t.Context(), func(x int) bool { return x > 0 }, closing)
	left := h.All()
	slices.Sort(left)
	if gone != 2 || err == nil || !strings.Contains(err.Error(), "it stays") || !slices.Equal(left, []int{0, 2}) {
		t.Errorf("%d gone, %v; left %v", gone, err, left)
	}
}

// TestHeldUndo: what cannot be removed stays in the books, also for a caller who left.
func TestHeldUndo(t *testing.T) {
	var h backends.Held[int]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fault := errors.New("refused")
	for x, want := range []error{nil, fault} {
		err := h.Undo(ctx, x, time.Minute, func(ctx context.Context) error {
			if _, timed := ctx.Deadline(); !timed || ctx.Err() != nil {
				t.Errorf("box %d is removed within a context that has ended, or never ends: %v", x, ctx.Err())
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("box %d: %v, want %v", x, err, want)
		}
	}
	if all := h.All(); len(all) != 1 || all[0] != 1 {
		t.Errorf("in the books: %v, want box 1", all)
	}
}

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/backends/pool"
)

// driver is a back-end in memory whose calls can be made to fail.
type driver struct {
	mu      sync.Mutex
	live    map[*box]bool
	made    int
	opening int
	most    int // opening at once
	peak    int // alive at once
	closed  bool
	open    func(ctx context.Context, n int, s backends.Spec) error // before a box is made
	reset   func(b *box) (backends.Cleaned, error)
	close   func(b *box) error
	read    func(b *box) error
	exec    func(ctx context.Context, b *box) error
	swept   int
	adopted []*box
	cheap   bool
}

type box struct {
	d      *driver
	id     string
	spec   backends.Spec
	mu     sync.Mutex
	resets int
}

func newDriver() *driver { return &driver{live: map[*box]bool{}} }

func (d *driver) Traits() backends.Traits { return backends.Traits{Name: "test", Cheap: d.cheap} }

func (d *driver) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	d.mu.Lock()
	d.made++
	n := d.made
	d.opening++
	d.most = max(d.most, d.opening)
	d.mu.Unlock()
	var err error
	if d.open != nil {
		err = d.open(ctx, n, s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening--
	if err != nil {
		return nil, err
	}
	b := &box{d: d, id: fmt.Sprint("box-", n), spec: s}
	d.live[b] = true
	d.peak = max(d.peak, len(d.live))
	return b, nil
}

func (d *driver) Close(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *driver) Sweep(context.Context) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.swept++
	return 1, nil
}

func (d *driver) Adopt(context.Context) ([]backends.Adopted, error) {
	var all []backends.Adopted
	for _, b := range d.adopted {
		d.live[b] = true
		all = append(all, backends.Adopted{Sandbox: b, Spec: b.spec})
	}
	return all, nil
}

func (d *driver) count() (made, live int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made, len(d.live)
}

func (b *box) ID() string { return b.id }

func (b *box) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	if b.d.exec != nil {
		if err := b.d.exec(ctx, b); err != nil {
			return backends.Result{}, err
		}
	}
	return backends.Result{}, ctx.Err()
}

func (b *box) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if b.d.read != nil {
		if err := b.d.read(b); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
}

func (b *box) WriteFile(context.Context, string, []byte, fs.FileMode) error { return nil }

func (b *box) Reset(ctx context.Context, l backends.Level) (backends.Cleaned, error) {
	b.mu.Lock()
	b.resets++
	b.mu.Unlock()
	if b.d.reset != nil {
		return b.d.reset(b)
	}
	return backends.Cleaned{}, nil
}

func (b *box) Close(context.Context) error {
	if b.d.close != nil {
		if err := b.d.close(b); err != nil {
			return err
		}
	}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	delete(b.d.live, b)
	return nil
}

// bubble is a test in simulated time, with a pool that leaves nothing.
func bubble(o pool.Options, prepare func(*driver), test func(t *testing.T, p *pool.Pool, d *driver)) func(*testing.T) {
	return func(t *testing.T) {
		d := newDriver()
		if prepare != nil {
			prepare(d)
		}
		p, err := pool.New(t.Context(), d, o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, p, d)
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close again: %v", err)
		}
		if _, live := d.count(); live != 0 || !d.closed {
			t.Errorf("%d boxes left, driver closed: %v", live, d.closed)
		}
		if s := p.Status(); s.Used != 0 || s.Leased != 0 || s.Waiting != 0 || s.Memory != 0 || s.Creating != 0 {
			t.Errorf("books: %+v", s)
		}
		if _, err := p.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrClosed) {
			t.Errorf("open after close: %v", err)
		}
	}
}

func open(t *testing.T, p *pool.Pool, s backends.Spec) backends.Sandbox {
	t.Helper()
	b, err := p.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBoxesAreDestroyedByDefault(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 2}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		for range 3 {
			b := open(t, p, backends.Spec{})
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := b.Exec(t.Context(), backends.Cmd{}); !errors.Is(err, backends.ErrClosed) {
				t.Errorf("a lease that is over: %v", err)
			}
		}
		if made, live := d.count(); made != 3 || live != 0 {
			t.Errorf("%d made, %d live", made, live)
		}
	}))
}

// TestCapacity: never more boxes than places, all are served, in the order of coming.
func TestCapacity(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 4, Creates: 2}, func(d *driver) {
		d.open = func(context.Context, int, backends.Spec) error { time.Sleep(time.Second); return nil }
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				b, err := p.Open(t.Context(), backends.Spec{})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(3 * time.Second)
				b.Close(t.Context())
			})
		}
		all.Wait()
		if d.peak > 4 || d.most > 2 {
			t.Errorf("%d at once, %d made at once", d.peak, d.most)
		}
	}))
}

// TestRunsShare: a run that came later with few wants is not kept out by one with many.
func TestRunsShare(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 4}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		ask := func(run string, n int) {
			for range n {
				all.Go(func() {
					b, err := p.Open(t.Context(), backends.Spec{Labels: map[string]string{pool.RunLabel: run}})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, run)
					mu.Unlock()
					time.Sleep(time.Second)
					b.Close(t.Context())
				})
			}
			synctest.Wait()
		}
		ask("big", 40)
		ask("small", 8)
		all.Wait()
		last := len(order) - 1
		for ; order[last] == "big"; last-- {
		}
		if last > 4+16+4 { // four were in use, then half of each round
			t.Errorf("the small run was served last at place %d: %v", last, order)
		}
	}))
}

// TestOneKindDoesNotKeepOthersOut: idle boxes of other kinds make room, the oldest first.
func TestOneKindDoesNotKeepOthersOut(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 2, Uses: 9, Reset: backends.ResetFiles, Memory: 100}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		a, b := open(t, p, backends.Spec{Image: "a"}), open(t, p, backends.Spec{Image: "b", Limits: backends.Limits{Memory: 90}})
		a.Close(t.Context())
		time.Sleep(time.Second)
		b.Close(t.Context())
		c := open(t, p, backends.Spec{Image: "c"})
		s := p.Status()
		if s.Evicted != 1 || s.Idle != 1 {
			t.Errorf("%+v", s)
		}
		if again := open(t, p, backends.Spec{Image: "b", Limits: backends.Limits{Memory: 90}}); again.ID() != b.ID() {
			t.Error("the box that was used last was removed")
		} else {
			again.Close(t.Context())
		}
		c.Close(t.Context())
		open(t, p, backends.Spec{Limits: backends.Limits{Memory: 80}}).Close(t.Context()) // 90 idle must go
		if _, err := p.Open(t.Context(), backends.Spec{Limits: backends.Limits{Memory: 101}}); !errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("a box that never fits: %v", err)
		}
	}))
}

func TestResetBoxesAreUsedAgain(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 1, Uses: 3, Reset: backends.ResetFull}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		var ids []string
		for range 6 {
			b := open(t, p, backends.Spec{Labels: map[string]string{"rollout": fmt.Sprint(len(ids))}})
			ids = append(ids, b.ID())
			b.Close(t.Context())
		}
		if made, _ := d.count(); made != 2 || ids[0] != ids[2] || ids[2] == ids[3] {
			t.Errorf("%v", ids)
		}
	}))
}

// TestDirtyBoxesAreNotHandedOn: what a reset left, or a reset that failed, ends the box.
func TestDirtyBoxesAreNotHandedOn(t *testing.T) {
	for name, reset := range map[string]func(*box) (backends.Cleaned, error){
		"left":  func(*box) (backends.Cleaned, error) { return backends.Cleaned{Left: []string{"/tmp/x"}}, nil },
		"error": func(*box) (backends.Cleaned, error) { return backends.Cleaned{}, backends.ErrLost },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t,
				bubble(pool.Options{
					Max:   1,
					Uses:  9,
					Reset: backends.ResetFull,
				}, func(d *driver) { d.reset = reset }, func(t *testing.T, p *pool.Pool, d *driver) {
					a := open(t, p, backends.Spec{})
					if err := a.Close(t.Context()); err != nil {
						t.Errorf("the rollout saw it: %v", err)
					}
					if b := open(t, p, backends.Spec{}); b.ID() == a.ID() {
						t.Error("a dirty box was handed on")
					}
					if s := p.Status(); s.Dirty != 1 {
						t.Errorf("%+v", s)
					}
				}))
		})
	}
}

// TestLostAndBrokenBoxes are distinguished and never used again.
func TestLostAndBrokenBoxes(t *testing.T) {
	for _, cause := range []error{backends.ErrLost, backends.ErrBroken} {
		synctest.Test(t, bubble(pool.Options{Max: 1, Uses: 9, Reset: backends.ResetFiles}, func(d *driver) {
			d.exec = func(context.Context, *box) error { return fmt.Errorf("exec: %w", cause) }
		}, func(t *testing.T, p *pool.Pool, d *driver) {
			a := open(t, p, backends.Spec{})
			for range 2 {
				if _, err := a.Exec(t.Context(), backends.Cmd{}); !errors.Is(err, cause) {
					t.Error(err)
				}
			}
			a.Close(t.Context())
			if b := open(t, p, backends.Spec{}); b.ID() == a.ID() {
				t.Errorf("%v: used again", cause)
			}
			if s := p.Status(); s.Lost+s.Broken != 1 || s.Lost == 1 != errors.Is(cause, backends.ErrLost) {
				t.Errorf("%+v", s)
			}
		}))
	}
}

// TestCloseEndsCalls: a call under way ends with the lease, and the box is not reset
// before it has.
func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 1, Uses: 9, Reset: backends.ResetFiles}, func(d *driver) {
		d.exec = func(ctx context.Context, b *box) error { <-ctx.Done(); time.Sleep(time.Second); return ctx.Err() }
		d.reset = func(b *box) (backends.Cleaned, error) { return backends.Cleaned{}, nil }
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		b := open(t, p, backends.Spec{})
		done := make(chan error, 1)
		go func() {
			_, err := b.Exec(t.Context(), backends.Cmd{})
			done <- err
		}()
		synctest.Wait()
		b.Close(t.Context())
		synctest.Wait() // the call has returned; its goroutine may be about to say so. No time passes
		select {
		case err := <-done:
			if !errors.Is(err, backends.ErrClosed) {
				t.Error(err)
			}
		default:
			t.Error("the lease was over before its call")
		}
	}))
}

func TestCancelledWaiterLeavesNothing(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 1}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		held := open(t, p, backends.Spec{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Open(ctx, backends.Spec{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 1 in use") {
			t.Error(err)
		}
		if s := p.Status(); s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		held.Close(t.Context())
		open(t, p, backends.Spec{}).Close(t.Context())
	}))
	synctest.Test(t, bubble(pool.Options{Max: 1, Wait: time.Second}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		open(t, p, backends.Spec{})
		if _, err := p.Open(t.Context(), backends.Spec{}); !errors.Is(err, pool.ErrCapacity) {
			t.Error(err)
		}
	}))
}

// TestHandOverRace: waiters that give up at any moment never take a place with them.
func TestHandOverRace(t *testing.T) {
	d := newDriver()
	p, err := pool.New(t.Context(), d, pool.Options{Max: 3, Uses: 1000, Reset: backends.ResetFiles})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				n := r.IntN(200)
				go func() {
					for range n {
						_ = ctx.Err()
					}
					cancel()
				}()
				if b, err := p.Open(ctx, backends.Spec{}); err == nil {
					b.Close(context.Background())
				}
				cancel()
			}
		})
	}
	all.Wait()
	if s := p.Status(); s.Leased != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if s := p.Status(); s.Used != 0 || len(d.live) != 0 {
		t.Errorf("%d left, %+v", len(d.live), s)
	}
}

func TestMissingImageFailsAllAtOnce(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 8}, func(d *driver) {
		d.open = func(_ context.Context, _ int, s backends.Spec) error {
			if s.Image == "none" {
				time.Sleep(time.Second)
				return fmt.Errorf("image none: %w", backends.ErrImage)
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := p.Open(t.Context(), backends.Spec{Image: "none"}); !errors.Is(err, backends.ErrImage) {
					t.Error(err)
				}
			})
		}
		open(t, p, backends.Spec{}).Close(t.Context())
		all.Wait()
		made, _ := d.count()
		if _, err := p.Open(t.Context(), backends.Spec{Image: "none"}); !errors.Is(err, backends.ErrImage) {
			t.Error(err)
		}
		if again, _ := d.count(); again != made {
			t.Error("it was asked for again at once")
		}
		time.Sleep(2 * time.Minute)
		p.Open(t.Context(), backends.Spec{Image: "none"})
		if again, _ := d.count(); again == made {
			t.Error("it was never asked for again")
		}
	}))
}

// TestBreaker: failures are followed by pauses that grow, a row of them by a longer one,
// and one success by normal work. Other kinds are not touched.
func TestBreaker(t *testing.T) {
	healed := time.Time{}
	synctest.Test(t, bubble(pool.Options{Max: 8, Breaker: 3, Cooldown: time.Minute}, func(d *driver) {
		healed = time.Now().Add(90 * time.Second)
		d.open = func(_ context.Context, _ int, s backends.Spec) error {
			if s.Image == "sick" && time.Now().Before(healed) {
				return errors.New("engine is ill")
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		_, err := p.Open(t.Context(), backends.Spec{Image: "sick"})
		if err == nil || !strings.Contains(err.Error(), "3 boxes in a row") || !strings.Contains(err.Error(), "ill") {
			t.Fatal(err)
		}
		made, _ := d.count()
		if made != 3 {
			t.Errorf("%d tries", made)
		}
		if i := slices.IndexFunc(p.Status().Kinds, func(k pool.KindStatus) bool { return k.Open }); i < 0 {
			t.Error("no breaker is open")
		}
		var out strings.Builder
		if err := p.WriteMetrics(&out); err != nil || !strings.Contains(out.String(), `hermes_box_breakers_open{backend="test"} 1`) {
			t.Errorf("metrics: %v\n%s", err, out.String())
		}
		open(t, p, backends.Spec{Image: "well"}).Close(t.Context())
		began := time.Now()
		var wrong error
		for time.Now().Before(healed) { // half-open: one probe a minute
			_, wrong = p.Open(t.Context(), backends.Spec{Image: "sick"})
		}
		if wrong == nil && time.Since(began) > 3*time.Minute {
			t.Error("it did not heal")
		}
		if tries, _ := d.count(); tries > made+4 {
			t.Errorf("%d tries while it was ill", tries)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if b, err := p.Open(t.Context(), backends.Spec{Image: "sick"}); err != nil {
					t.Error(err)
				} else {
					b.Close(t.Context())
				}
			})
		}
		all.Wait()
		if s := p.Status(); s.Tripped != 1 {
			t.Errorf("%+v", s)
		}
	}))
}

// TestStuckCreate: one box whose creation never ends does not stop other callers.
func TestStuckCreate(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 3, OpenTime: time.Minute}, func(d *driver) {
		d.open = func(ctx context.Context, _ int, s backends.Spec) error {
			if s.Image == "stuck" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		ctx, cancel := context.WithCancel(t.Context())
		go p.Open(ctx, backends.Spec{Image: "stuck"})
		synctest.Wait()
		for range 20 {
			open(t, p, backends.Spec{}).Close(t.Context())
		}
		cancel()
	}))
}

func TestRateOfCreates(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 100, Rate: 2}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		began := time.Now()
		var all sync.WaitGroup
		for range 21 {
			all.Go(func() {
				if b, err := p.Open(t.Context(), backends.Spec{}); err == nil {
					b.Close(t.Context())
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took < 10*time.Second {
			t.Errorf("21 boxes at 2 a second took %v", took)
		}
	}))
}

// TestRemovalIsTriedAgain: only Close of the pool returns the error of a failed removal.
func TestRemovalIsTriedAgain(t *testing.T) {
	fails := 2
	synctest.Test(t, bubble(pool.Options{Max: 1}, func(d *driver) {
		d.close = func(*box) error {
			fails--
			if fails >= 0 {
				return errors.New("busy")
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		if err := open(t, p, backends.Spec{}).Close(t.Context()); err != nil {
			t.Error(err)
		}
		if s := p.Status(); s.Unremoved != 2 || s.Removed != 1 {
			t.Errorf("%+v", s)
		}
	}))
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		d.close = func(*box) error { return errors.New("busy") }
		p, err := pool.New(t.Context(), d, pool.Options{Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		open(t, p, backends.Spec{}).Close(t.Context())
		if err := p.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "box-1 was not removed") {
			t.Error(err)
		}
	})
}

// TestUnremovedBoxKeepsItsPlace: there are never more boxes than places, whatever an engine
// does not remove. When it does after all, the place is free.
func TestUnremovedBoxKeepsItsPlace(t *testing.T) {
	var mu sync.Mutex
	busy := true
	synctest.Test(t, bubble(pool.Options{Max: 2, Memory: 4 << 20, Creates: 1}, func(d *driver) {
		d.close = func(*box) error {
			mu.Lock()
			defer mu.Unlock()
			if busy {
				return errors.New("device or resource busy")
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		spec := backends.Spec{Limits: backends.Limits{Memory: 2 << 20}}
		open(t, p, spec).Close(t.Context())
		if s := p.Status(); s.Used != 1 || s.Stuck != 1 || s.Removed != 0 || s.Memory != 2<<20 {
			t.Errorf("one that was not removed: %+v", s)
		}
		second := open(t, p, spec)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Open(ctx, spec); err == nil || !strings.Contains(err.Error(), "2 of 2 in use, 1 of them could not be removed") {
			t.Errorf("a third box: %v", err)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := p.Open(t.Context(), spec)
			waits <- err
		}()
		synctest.Wait()
		second.Close(t.Context())
		for _, err := range []error{<-waits, func() error { _, err := p.Open(t.Context(), spec); return err }()} {
			if !errors.Is(err, pool.ErrCapacity) || !strings.Contains(err.Error(), "all 2 places have boxes that could not be removed, the last: device or resource busy") {
				t.Errorf("when every place is taken for good: %v", err)
			}
		}
		if made, live := d.count(); made != 2 || live != 2 {
			t.Errorf("%d made, %d live", made, live)
		}
		var page strings.Builder
		if err := p.WriteMetrics(&page); err != nil || !strings.Contains(page.String(), `hermes_boxes{backend="test",state="stuck"} 2`) {
			t.Errorf("%v\n%s", err, page.String())
		}
		mu.Lock()
		busy = false
		mu.Unlock()
		time.Sleep(2 * time.Minute) // in which they are tried again
		if s := p.Status(); s.Used != 0 || s.Stuck != 0 || s.Removed != 2 || s.Memory != 0 {
			t.Errorf("when they were removed: %+v", s)
		}
		open(t, p, spec).Close(t.Context())
	}))
}

func TestWarmBoxes(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 5, Warm: 2, IdleTime: time.Minute}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		b := open(t, p, backends.Spec{})
		synctest.Wait()
		if s := p.Status(); s.Idle != 2 {
			t.Errorf("%+v", s)
		}
		b.Close(t.Context())
		time.Sleep(5 * time.Minute)
		if s := p.Status(); s.Idle != 0 || s.Used != 0 {
			t.Errorf("no one asks for them any more: %+v", s)
		}
	}))
}

// TestBoxesAhead: cheap boxes are made while rollouts wait for their model, a few at a time, and
// as many as are likely to be asked for. Those that no one asked for are used by others.
func TestBoxesAhead(t *testing.T) {
	prepare := func(d *driver) {
		d.cheap = true
		d.open = func(context.Context, int, backends.Spec) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}
	}
	synctest.Test(t, bubble(pool.Options{Max: 40}, prepare, func(t *testing.T, p *pool.Pool, d *driver) {
		expect := func(n int) (over []func(bool)) {
			for range n {
				over = append(over, p.Expect(backends.Spec{}))
			}
			time.Sleep(time.Minute)
			return over
		}
		first := expect(10)
		if made, _ := d.count(); made != 10 || d.most > runtime.GOMAXPROCS(0) {
			t.Errorf("%d boxes were made for 10 rollouts, %d at once", made, d.most)
		}
		for i, over := range first {
			over(i == 0)
			if i == 0 {
				began := time.Now()
				open(t, p, backends.Spec{}).Close(t.Context())
				if took := time.Since(began); took != 0 {
					t.Errorf("a box that was made ahead was opened in %v", took)
				}
			}
			over(true) // has no effect
		}
		second := expect(20)
		if made, _ := d.count(); made != 10 {
			t.Errorf("%d boxes were made, although 9 are there and one rollout in ten needs one", made)
		}
		for _, over := range second {
			over(false)
		}
		time.Sleep(10 * time.Minute)
		if s := p.Status(); s.Idle != 0 || s.Used != 0 {
			t.Errorf("no one asks for them any more: %+v", s)
		}
	}))
	prepare = func(*driver) {}
	synctest.Test(t, bubble(pool.Options{Max: 40}, prepare, func(t *testing.T, p *pool.Pool, d *driver) {
		p.Expect(backends.Spec{})(true)
		synctest.Wait()
		if made, _ := d.count(); made != 0 {
			t.Errorf("%d boxes were made by a driver whose boxes are not cheap", made)
		}
	}))
}

// TestProbe: one silent answer is forgiven, three are not; boxes in use are not judged.
func TestProbe(t *testing.T) {
	answers := map[string]int{}
	var mu sync.Mutex
	synctest.Test(t, bubble(pool.Options{Max: 3, Uses: 9, Reset: backends.ResetFiles, Probe: 10 * time.Second, IdleTime: time.Hour}, func(d *driver) {
		d.read = func(b *box) error {
			mu.Lock()
			defer mu.Unlock()
			answers[b.id]++
			if b.id == "box-1" || b.id == "box-2" && answers[b.id] == 1 {
				return errors.New("silence")
			}
			return nil
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		var held []backends.Sandbox
		for range 3 {
			held = append(held, open(t, p, backends.Spec{}))
		}
		time.Sleep(time.Minute)
		if s := p.Status(); s.Leased != 3 || s.Quarantined != 0 || len(answers) > 0 {
			t.Errorf("boxes in use were judged: %+v %v", s, answers)
		}
		for _, b := range held {
			b.Close(t.Context())
		}
		time.Sleep(time.Minute)
		if s := p.Status(); s.Quarantined != 1 || s.Idle != 2 {
			t.Errorf("%+v", s)
		}
	}))
}

func TestDrain(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 2}, nil, func(t *testing.T, p *pool.Pool, d *driver) {
		b := open(t, p, backends.Spec{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 boxes") {
			t.Error(err)
		}
		if _, err := p.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrClosed) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { b.Close(context.Background()) })
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}))
}

func TestAdoptAndSweep(t *testing.T) {
	synctest.Test(t, bubble(pool.Options{Max: 2, Uses: 9, Reset: backends.ResetFiles, Sweep: time.Minute}, func(d *driver) {
		d.reset = func(b *box) (backends.Cleaned, error) {
			if b.id == "dirty" {
				return backends.Cleaned{Left: []string{"x"}}, nil
			}
			return backends.Cleaned{}, nil
		}
		for _, id := range []string{"dirty", "clean", "second", "beyond"} {
			d.adopted = append(d.adopted, &box{d: d, id: id, spec: backends.Spec{Image: "i"}})
		}
	}, func(t *testing.T, p *pool.Pool, d *driver) {
		a, b := open(t, p, backends.Spec{Image: "i"}), open(t, p, backends.Spec{Image: "i"})
		if a.ID() != "second" || b.ID() != "clean" {
			t.Errorf("%s, %s", a.ID(), b.ID())
		}
		time.Sleep(10 * time.Minute)
		if s := p.Status(); s.Swept < 4 || s.Adopted != 2 {
			t.Errorf("%+v", s)
		}
	}))
}

func TestOptions(t *testing.T) {
	for _, o := range []pool.Options{{Max: -1}, {Uses: 2}, {Reset: "some"}, {Warm: 9, Max: 3}, {Rate: -1}, {Memory: -1}} {
		if p, err := pool.New(t.Context(), newDriver(), o); err == nil {
			p.Close(t.Context())
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestNetworksAreKinds: a box that may reach less is never handed to a task that may reach
// more, or the reverse, and one that cannot be kept from the network is refused.
func TestNetworksAreKinds(t *testing.T) {
	p, err := pool.New(t.Context(), secluded{newDriver()}, pool.Options{Max: 2, Uses: 9, Reset: backends.ResetFull})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	var ids []string
	for _, network := range [][]string{nil, {}, nil, {}} {
		x := open(t, p, backends.Spec{Network: network})
		ids = append(ids, x.ID())
		x.Close(t.Context())
	}
	if ids[0] != ids[2] || ids[1] != ids[3] || ids[0] == ids[1] {
		t.Errorf("boxes with and without a narrowed network, in turns: %q", ids)
	}
	if _, err := p.Open(t.Context(), backends.Spec{Network: []string{"a.example"}}); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("a host where boxes have no network: %v", err)
	}
	if err := backends.Narrow(p, []string{"a.example"}); err == nil || strings.Count(err.Error(), "a.example") != 1 {
		t.Errorf("asked of the pool: %v", err)
	}
}

// secluded is a driver whose boxes have no network.
type secluded struct{ *driver }

func (secluded) Traits() backends.Traits { return backends.Traits{Name: "test", Network: "none"} }

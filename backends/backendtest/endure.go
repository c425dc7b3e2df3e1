package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/pool"
)

// Ordeal is a back-end whose calls go wrong, and how long it must bear that.
type Ordeal struct {
	Backend  backends.Backend
	Options  pool.Options
	Injected func() int                   // faults so far
	Want     int                          // faults of calls that must happen, beside boxes that are killed
	Heal     func()                       // ends the faults, before what is left is removed; nil: they go on
	Kill     func(backends.Sandbox) error // ends a box from outside, as one more fault; nil: none
	Answers  bool                         // commands are really carried out
	Left     func() ([]string, error)     // what is left after the end; nil: not known
	Workers  int                          // rollouts at once; 0: six
	Stray    string                       // goroutines with this in their stack are a library's, which may stay
}

// errWrong is the one error that must never come: a box was not its user's own, or an
// answer was made up.
var errWrong = errors.New("a box was not clean or not one's own")

// Endure runs short rollouts, on a pool before the back-end, until enough of its calls have
// gone wrong. Then nothing may be left: the pool's books balance, no box, no goroutine and
// nothing that Left can see. No fault may look like the result of a command.
func Endure(t testing.TB, o Ordeal) pool.Status {
	t.Helper()
	before := o.goroutines()
	p, err := pool.New(t.Context(), o.Backend, o.Options)
	if err != nil {
		t.Fatal(err)
	}
	var killed, done atomic.Int64
	var all sync.WaitGroup
	if o.Workers == 0 {
		o.Workers = 6
	}
	for w := range o.Workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := 0; o.Injected() < o.Want; i++ {
				err := o.rollout(p, fmt.Sprintf("%d-%d", w, i), r, &killed)
				if errors.Is(err, errWrong) {
					t.Error(err)
				}
				if err == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	s := p.Status()
	if o.Heal != nil {
		o.Heal()
	}
	err = p.Close(context.Background())
	if o.Heal != nil && err != nil {
		t.Errorf("close, when nothing went wrong any more: %v", err)
	}
	end := p.Status()
	if end.Used != end.Stuck || end.Leased != 0 || end.Waiting != 0 || end.Created != end.Removed+int64(end.Stuck) || o.Heal != nil && end.Stuck > 0 {
		t.Errorf("books: %+v", end)
	}
	if o.Left != nil {
		if left, err := o.Left(); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
	if n := o.settled(before); n > before {
		t.Errorf("%d goroutines before, %d after:\n%s", before, n, stacks())
	}
	t.Logf("%d faults, %d boxes killed: %d leases of %d boxes, %d rollouts undisturbed; %d lost, %d broken, %d resets, %d dirty, %d removals that failed", o.Injected(), killed.Load(), s.Leases, s.Created, done.Load(), s.Lost, s.Broken, s.Resets, s.Dirty, end.Unremoved)
	return s
}

// settled counts goroutines when those that have nothing left to do but end have ended.
func (o Ordeal) settled(want int) int {
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n := o.goroutines()
		if n <= want {
			return n
		}
		select {
		case <-tick.C:
		case <-end.C:
			return n
		}
	}
}

func (o Ordeal) goroutines() int {
	all := stacks()
	if o.Stray == "" {
		return strings.Count(all, "\n\n")
	}
	n := 0
	for _, g := range strings.SplitAfter(all, "\n\n") {
		if strings.HasSuffix(g, "\n\n") && !strings.Contains(g, o.Stray) {
			n++
		}
	}
	return n
}

// stacks are those of all goroutines.
func stacks() string {
	raw := make([]byte, 4<<20)
	return string(raw[:runtime.Stack(raw, true)])
}

// rollout prepares, works, looks whether the box was really its own, and gives it back in
// one of the ways that rollouts end.
func (o Ordeal) rollout(p *pool.Pool, me string, r *rand.Rand, killed *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	if r.IntN(16) == 0 { // interrupted while its box is made, or a little later
		late := time.AfterFunc(time.Duration(r.IntN(100))*time.Millisecond, cancel)
		defer late.Stop()
	}
	b, err := p.Open(ctx, backends.Spec{Labels: map[string]string{pool.RunLabel: fmt.Sprint(r.IntN(3))}})
	if err != nil {
		return err
	}
	if r.IntN(8) == 0 {
		cancel() // interrupted: what follows fails, and the box goes back all the same
	}
	defer b.Close(context.WithoutCancel(ctx))
	if err := b.WriteFile(ctx, "mine", []byte(me), 0); err != nil {
		return err
	}
	if o.Kill != nil && r.IntN(5) == 0 {
		if err := o.Kill(b); err == nil {
			killed.Add(1)
		}
	}
	res, err := b.Exec(ctx, backends.Cmd{Shell: "ls .left 2>/dev/null; cat mine; touch .left; (sleep 1000 >/dev/null 2>&1 &); ls -A | grep -v -e ^.bashrc -e ^.profile"})
	if err != nil {
		return err
	}
	if got := string(res.Stdout); o.Answers && got != me+".left\nmine\n" {
		return fmt.Errorf("%w: %q sees %q, code %d, %q", errWrong, me, got, res.Code, res.Stderr)
	}
	return nil
}

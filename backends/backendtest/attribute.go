package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"hermes/backends"
)

// Death is a way in which a box ends that is not the doing of its commands.
type Death struct {
	Name string
	End  func(box backends.Sandbox) error
	// Survives says that the command may live on, as one does whose connection is cut and
	// comes back.
	Survives bool
}

// Deaths are the boxes of which [Attribute] sees the end.
type Deaths struct {
	Open    func(ctx context.Context) (backends.Sandbox, error)
	Count   int
	Workers int      // boxes at once; 0: one, for deaths that others would feel
	Model   []string // commands that try to break their box; it breaks, or survives and says how the command ended
	Ours    []Death
}

// Attribute ends boxes, every second one by a command of the model and the others by
// something of ours. It fails if more than one error in a thousand blames the wrong side:
// a model's own mistake is scored, a loss of ours never is.
func Attribute(t testing.TB, d Deaths) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]int{}
	ours, wrong := 0, 0
	next := make(chan int)
	var all sync.WaitGroup
	for range max(1, d.Workers) {
		all.Go(func() {
			defer func() {
				for range next { // a worker that gave up must not block the sender
				}
			}()
			for i := range next {
				x, err := d.Open(t.Context())
				if err != nil {
					t.Errorf("death %d: open: %v", i, err)
					continue
				}
				name, bad := "", false
				var said string
				if i%2 == 0 {
					name = d.Model[i/2%len(d.Model)]
					err = broken(t.Context(), x, name)
					said = blame(err)
					bad = said != "the model's" && said != "a result"
				} else {
					death := d.Ours[i/2%len(d.Ours)]
					err = ended(t.Context(), x, death)
					name, said = death.Name, blame(err)
					bad = said != "ours" && !(death.Survives && said == "a result")
				}
				mu.Lock()
				seen[name+": "+said]++
				ours += i % 2
				if bad {
					wrong++
					t.Logf("death %d, %s, was reported as %s: %v", i, name, said, err)
				}
				mu.Unlock()
				x.Close(context.Background())
			}
		})
	}
	for i := range d.Count {
		next <- i
	}
	close(next)
	all.Wait()
	t.Logf("%d deaths, %d of them ours, %d reported wrong: %v", d.Count, ours, wrong, seen)
	if wrong*1000 > d.Count {
		t.Errorf("%d of %d deaths were reported wrong", wrong, d.Count)
	}
}

// blame says whose doing an error is.
func blame(err error) string {
	switch {
	case err == nil:
		return "a result"
	case errors.Is(err, backends.ErrBroken):
		return "the model's"
	case errors.Is(err, backends.ErrLost):
		return "ours"
	}
	return err.Error()
}

// broken runs a command that tries to break its box, then one that needs the box.
func broken(ctx context.Context, x backends.Sandbox, script string) error {
	_, err := x.Exec(ctx, backends.Cmd{Shell: script, Timeout: 2 * time.Second})
	if err == nil {
		_, err = x.Exec(ctx, backends.Cmd{Shell: "true"})
	}
	return err
}

// ended lets a box die while a command runs in it.
func ended(ctx context.Context, x backends.Sandbox, death Death) error {
	s, ok := backends.As[backends.Streamer](x)
	if !ok {
		return errors.New("its commands cannot be followed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Stream(ctx, backends.Cmd{Shell: "echo up; exec sleep 1000"}, backends.Streams{Out: w})
		w.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
		return fmt.Errorf("the command did not begin: %w", errors.Join(err, <-done))
	}
	go io.Copy(io.Discard, r)
	if err := death.End(x); err != nil {
		return err
	}
	if !death.Survives {
		return <-done
	}
	// The box is asked whether it is still there: then the command is, too.
	if _, err := x.Exec(ctx, backends.Cmd{Shell: "true"}); err != nil {
		cancel()
		<-done
		return err
	}
	select {
	case err := <-done:
		return err
	default:
		return nil
	}
}

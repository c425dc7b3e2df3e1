package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"

	"hermes/backends"
)

// Faulty is a back-end in front of another whose calls fail now and then, and that keeps
// books of the boxes behind it. The faults are drawn with a seed.
//
// Opening is refused, or fails after the box was made (which is then closed, as a driver
// must); a command finds its box lost, or broken; closing fails and leaves the box;
// resetting fails, or leaves something.
type Faulty struct {
	backends.Backend
	mu       sync.Mutex
	rand     *rand.Rand
	share    float64
	injected map[string]int
	live     map[string]bool
}

// errInjected is an error of no known kind.
var errInjected = errors.New("injected fault")

// NewFaulty returns a Faulty whose calls fail with the given probability.
func NewFaulty(b backends.Backend, seed uint64, share float64) *Faulty {
	return &Faulty{Backend: b, rand: rand.New(rand.NewPCG(seed, 7)), share: share, injected: map[string]int{}, live: map[string]bool{}}
}

// draw decides whether a fault happens here.
func (f *Faulty) draw(kind string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand.Float64() >= f.share {
		return false
	}
	f.injected[kind]++
	return true
}

// Heal ends the faults.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.share = 0
}

// Injected counts the faults so far.
func (f *Faulty) Injected() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.injected {
		n += k
	}
	return n
}

// Live counts the boxes that were opened and not closed.
func (f *Faulty) Live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live)
}

// Open implements backends.Backend.
func (f *Faulty) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	if f.draw("open refused") {
		return nil, fmt.Errorf("open: %w", errInjected)
	}
	b, err := f.Backend.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	if f.draw("open half done") {
		return nil, errors.Join(fmt.Errorf("open: answer lost: %w", errInjected), b.Close(context.WithoutCancel(ctx)))
	}
	f.mu.Lock()
	f.live[b.ID()] = true
	f.mu.Unlock()
	return &faultyBox{b, f}, nil
}

// faultyBox is a box of a Faulty.
type faultyBox struct {
	backends.Sandbox
	f *Faulty
}

// Unwrap implements backends.Unwrapper.
func (b *faultyBox) Unwrap() backends.Sandbox { return b.Sandbox }

// Has implements backends.Selective: it resets when the box behind it does.
func (b *faultyBox) Has(ability any) (ok bool) {
	if _, is := ability.(*backends.Resetter); is {
		_, ok = backends.As[backends.Resetter](b.Sandbox)
	}
	return ok
}

// Exec implements backends.Sandbox.
func (b *faultyBox) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	if b.f.draw("box lost") {
		return backends.Result{}, fmt.Errorf("exec: %w: %w", backends.ErrLost, errInjected)
	}
	if b.f.draw("box broken") {
		return backends.Result{}, fmt.Errorf("exec: %w: %w", backends.ErrBroken, errInjected)
	}
	return b.Sandbox.Exec(ctx, c)
}

// ReadFile implements backends.Sandbox.
func (b *faultyBox) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if b.f.draw("read lost") {
		return nil, fmt.Errorf("read: %w: %w", backends.ErrLost, errInjected)
	}
	return b.Sandbox.ReadFile(ctx, path, limit)
}

// WriteFile implements backends.Sandbox.
func (b *faultyBox) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	if b.f.draw("write lost") {
		return fmt.Errorf("write: %w: %w", backends.ErrLost, errInjected)
	}
	return b.Sandbox.WriteFile(ctx, path, data, perm)
}

// Reset implements backends.Resetter.
func (b *faultyBox) Reset(ctx context.Context, l backends.Level) (backends.Cleaned, error) {
	if b.f.draw("reset failed") {
		return backends.Cleaned{}, fmt.Errorf("reset: %w", errInjected)
	}
	if b.f.draw("reset dirty") {
		return backends.Cleaned{Left: []string{"an injected file"}}, nil
	}
	r, ok := backends.As[backends.Resetter](b.Sandbox)
	if !ok {
		return backends.Cleaned{}, fmt.Errorf("reset: %w", errors.ErrUnsupported)
	}
	return r.Reset(ctx, l)
}

// Close implements backends.Sandbox.
func (b *faultyBox) Close(ctx context.Context) error {
	if b.f.draw("close failed") {
		return fmt.Errorf("close: %w", errInjected)
	}
	err := b.Sandbox.Close(ctx)
	if err == nil {
		b.f.mu.Lock()
		delete(b.f.live, b.ID())
		b.f.mu.Unlock()
	}
	return err
}

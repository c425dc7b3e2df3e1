package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/backends/pool"
	"hermes/internal/settings"
)

// closeBoxes bounds the end of the pool, beyond which boxes are left to the sweep.
const closeBoxes = 2 * time.Minute

// Boxes is where the boxes of a run live.
type Boxes struct {
	Backend backends.Backend // the pool in front of what was chosen
	Note    string           // what was chosen, for people

	pool    *pool.Pool
	follows bool // as many boxes as rollouts
}

// OpenBoxes opens the back-end, with a pool in front of it. Close it.
func OpenBoxes(ctx context.Context, h Host, s settings.Parts) (*Boxes, error) {
	if s.Boxes < 0 {
		return nil, fmt.Errorf("--boxes %d: want 1 or more", s.Boxes)
	}
	section := h.Section("backends")
	o, err := poolOptions(section)
	if err != nil {
		return nil, err
	}
	chosen, err := OpenBackend(ctx, s.Backend, section, h.Backends)
	if err != nil {
		return nil, err
	}
	sweepHere(ctx)
	b := &Boxes{Note: chosen.Why}
	o.Max = cmp.Or(s.Boxes, o.Max)
	if o.Max == 0 && chosen.Traits().Slots == 0 {
		o.Max, b.follows = max(s.Requests, 1), true
	}
	o.Seed, o.Log = uint64(s.Seed), h.Logger()
	if b.pool, err = pool.New(ctx, chosen.Backend, o); err != nil {
		return nil, errors.Join(err, chosen.Close(context.WithoutCancel(ctx)))
	}
	b.Backend = b.pool
	fmt.Fprintln(h.Err, chosen.Why)
	return b, nil
}

// Close ends the pool within a bounded time, also after cancellation.
func (b *Boxes) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBoxes)
	defer cancel()
	return b.pool.Close(ctx)
}

// SetConcurrency raises or lowers the bound on boxes where it follows that of rollouts.
func (b *Boxes) SetConcurrency(n int) {
	if b.follows {
		b.pool.SetMax(n)
	}
}

// WriteMetrics writes the figures of the pool for Prometheus.
func (b *Boxes) WriteMetrics(w io.Writer) error { return b.pool.WriteMetrics(w) }

// sweepTime is how long a start waits for the sweep.
const sweepTime = 5 * time.Second

// sweepHere removes what a killed hermes left of boxes without isolation, whichever back-end
// this one uses. It does not wait for a folder that does not answer; what is left there, gc reports.
func sweepHere(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		local.SweepDefault(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

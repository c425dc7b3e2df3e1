package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/backends/pool"
	"hermes/configs"
)

// poolKey is the part of the section `backends` that is about the pool in front of them.
const poolKey = "pool"

// closeBoxes bounds the end of the pool, beyond which boxes are left to the sweep.
const closeBoxes = 2 * time.Minute

// boxes is where the boxes of a run live.
type boxes struct {
	backend backends.Backend
	pool    *pool.Pool // what backend is
	note    string     // what was chosen, for people
}

// openBoxes opens the back-end, with a pool in front of it, when some tool or checker can
// need it.
func (b *parts) openBoxes(ctx context.Context) error {
	if b.Boxes < 0 {
		return fmt.Errorf("--boxes %d: want 1 or more", b.Boxes)
	}
	section := b.host.Section("backends")
	o, err := poolOptions(section)
	if err != nil {
		return err
	}
	chosen, err := OpenBackend(ctx, b.Backend, section, b.host.Backends)
	if err != nil {
		return err
	}
	sweepHere(ctx)
	follows := false
	if o.Max = cmp.Or(b.Boxes, o.Max); o.Max == 0 && chosen.Traits().Slots == 0 {
		o.Max, follows = max(b.requests, 1), true
	}
	o.Seed, o.Log = uint64(b.seed), b.log
	p, err := pool.New(ctx, chosen.Backend, o)
	if err != nil {
		return errors.Join(err, chosen.Close(context.WithoutCancel(ctx)))
	}
	if follows {
		b.raise = append(b.raise, p.SetMax)
	}
	b.boxes = &boxes{backend: p, pool: p, note: chosen.Why}
	b.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeBoxes)
		defer cancel()
		return p.Close(ctx)
	})
	fmt.Fprintln(b.host.Err, chosen.Why)
	return nil
}

// sweepTime is how long a start waits for the sweep.
const sweepTime = 5 * time.Second

// sweepHere removes what a killed hermes left of boxes without isolation, whichever back-end
// this one uses. A folder that does not answer holds nobody up; gc reports what stays there.
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

// poolOptions reads the pool's part of the section.
func poolOptions(section configs.Section) (o pool.Options, err error) {
	return o, section.Sub(poolKey).Decode(&o)
}

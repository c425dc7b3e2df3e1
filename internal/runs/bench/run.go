package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"hermes/envs"
	"hermes/internal/build"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/journal"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/wire"
)

// floorLatency is the most with which the bare requests are measured too: with more, they
// would take as long again as the rollouts.
const floorLatency = 10 * time.Millisecond

// Run measures round after round: rollouts with validation, journal, events and metrics
// on, then the same number of requests of the same size without hermes.
func (b Bench) Run(ctx context.Context) (Figures, error) {
	f := Figures{Shape: b.Shape, Rollouts: b.Rollouts, Turns: b.Turns, Context: b.Context, InFlight: b.InFlight, Rounds: b.Rounds}
	turns := float64(b.Rollouts * b.Turns)
	if b.typed() {
		return b.runTyped(ctx, f)
	}
	defer build.HoldMemory(settings.Memory(nil, "/"))()
	var engines, floors, walls []float64
	for round := range b.Rounds {
		start, cpu := time.Now(), processor()
		dir := filepath.Join(b.Dir, fmt.Sprint("journal-", round))
		if b.Shape == "serve" {
			n, err := b.serve(ctx, dir)
			if err != nil {
				return f, err
			}
			turns = float64(n) // whole groups
		} else if err := b.engine(ctx, dir); err != nil {
			return f, err
		}
		engines = append(engines, float64((processor()-cpu).Nanoseconds())/1e3/turns)
		walls = append(walls, time.Since(start).Seconds())
		f.PeakMB = peak()
		if b.Latency > floorLatency {
			continue
		}
		cpu = processor()
		if err := b.floor(ctx); err != nil {
			return f, fmt.Errorf("bare requests: %w", err)
		}
		floors = append(floors, float64((processor()-cpu).Nanoseconds())/1e3/turns)
	}
	f.CPUPerTurn = median(engines)
	f.Floor = median(floors)
	f.Seconds = median(walls)
	f.CPUEach, f.PerSecond = f.CPUPerTurn*float64(b.Turns)/1e3, turns/f.Seconds
	if b.Latency > 0 {
		waves := (b.Rollouts + b.InFlight - 1) / b.InFlight
		f.Ideal = (b.stagger() + time.Duration(waves*b.Turns)*b.Latency).Seconds()
		f.Ratio = f.Seconds / f.Ideal
	}
	return f, nil
}

// engine rolls out everything once, into its own journal.
func (b Bench) engine(ctx context.Context, dir string) (err error) {
	w, err := wire.New(wire.Options{Bases: []string{b.Base}, Concurrency: b.InFlight})
	if err != nil {
		return err
	}
	defer w.Close()
	pol, err := chat.New(w, chat.Options{Model: "fake"})
	if err != nil {
		return err
	}
	log, err := journal.Open(dir, journal.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	watch := event.All(prom.New())
	var env envs.Env = silent{}
	o := rollout.Options{Policy: pol, SendScripts: true, Observer: watch}
	if b.Shape == "tool" {
		o.Plan = b.tools
	} else {
		env = user{step: b.step(), turns: b.Turns}
	}
	o.Env = env
	r, err := rollout.NewRunner(o)
	if err != nil {
		return err
	}
	eng, err := engine.New(r, log, engine.Options{InFlight: b.InFlight, Observer: watch, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	sum := eng.Run(ctx, nil, b.rows(ctx))
	if sum.Stopped != nil || sum.Ended != int64(b.Rollouts) {
		return fmt.Errorf("%d of %d rollouts ended: %w", sum.Ended, b.Rollouts, errors.Join(sum.Stopped, context.Cause(ctx)))
	}
	return b.asked(w.Stats())
}

// asked makes sure that what was measured is what was meant.
func (b Bench) asked(s wire.Stats) error {
	if want := int64(b.Rollouts * b.Turns); s.Bought != want || s.Retries > 0 {
		return fmt.Errorf("%d answers were bought with %d retries, want %d without: the figures say nothing", s.Bought, s.Retries, want)
	}
	return nil
}

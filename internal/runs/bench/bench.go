// Package bench measures what the engine costs beside a model server.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// Bench measures what the engine costs beside a model server: rollouts of many turns
// against the scripted server at Base, which must run in another process.
type Bench struct {
	Base     string // of the server, ending in /v1
	API      string // of a trajectory server in another process; the shape serve posts to it
	Shape    string // plain, tool, long, flight, serve, batch or agentic
	Rollouts int
	Turns    int
	Context  int // bytes of the conversation, on average over the turns
	InFlight int
	Rounds   int           // the figures are medians over them
	Latency  time.Duration // with which the server answers
	Dir      string        // for the logs
	Backend  string        // of the shape agentic
	Typed    Typed         // what the shapes batch and agentic need
}

// shapes are what is measured, and how much of it by default.
var shapes = map[string]Bench{
	"plain":  {Rollouts: 300, Turns: 20, Context: 12_000, InFlight: 64, Rounds: 5},
	"tool":   {Rollouts: 300, Turns: 20, Context: 12_000, InFlight: 64, Rounds: 5},
	"long":   {Rollouts: 100, Turns: 20, Context: 74_000, InFlight: 64, Rounds: 5},
	"flight": {Rollouts: 10_000, Turns: 20, Context: 12_000, Rounds: 1, Latency: 5 * time.Second},
	"serve":  {Rollouts: 4_000, Turns: 20, Context: 12_000, Rounds: 1, Latency: 5 * time.Second},
	"batch":  {Rollouts: 500, Turns: 10, Context: 12_000, InFlight: 64, Rounds: 5},
	// ten commands and a last answer
	"agentic": {Rollouts: 2_000, Turns: 11, Context: 4_000, Rounds: 1, Latency: 5 * time.Second},
}

// floorLatency is the most with which the bare requests are measured too: with more, they
// would take as long again as the rollouts.
const floorLatency = 10 * time.Millisecond

// New fills in what was not said. A latency of nil is the shape's; 0 is none.
func New(s settings.Bench) (Bench, error) {
	d, ok := shapes[s.Shape]
	if !ok {
		return d, fmt.Errorf("shape %q: want plain, tool, long, flight, serve, batch or agentic", s.Shape)
	}
	d.Shape = s.Shape
	d.Backend = s.Backend
	for _, f := range []struct {
		name string
		at   *int
		said *int
	}{{"rollouts", &d.Rollouts, s.Rollouts}, {"turns", &d.Turns, s.Turns}, {"bytes of context", &d.Context, s.Context}, {"rounds", &d.Rounds, s.Rounds}, {"in flight", &d.InFlight, s.Concurrency}} {
		if f.said == nil {
			continue
		}
		*f.at = *f.said
		if *f.at < 0 {
			return d, fmt.Errorf("%s: %d is negative", f.name, *f.at)
		}
	}
	if s.Latency != nil {
		d.Latency = *s.Latency
	}
	if d.Latency < 0 {
		return d, fmt.Errorf("latency: %v is negative", d.Latency)
	}
	d.InFlight = cmp.Or(d.InFlight, d.Rollouts)
	return d, nil
}

// Figures are the result: medians over the rounds. Processor time is of this process
// alone.
type Figures struct {
	Shape      string  `json:"shape"`
	Rollouts   int     `json:"rollouts"`
	Turns      int     `json:"turns"`
	Context    int     `json:"context_bytes"`
	InFlight   int     `json:"in_flight"`
	Rounds     int     `json:"rounds"`
	CPUPerTurn float64 `json:"cpu_us_per_turn"`
	Floor      float64 `json:"floor_us_per_turn,omitempty"` // the same requests by net/http alone; not measured where answers are slow
	CPUEach    float64 `json:"cpu_ms_per_trajectory"`       // written and synced
	PerSecond  float64 `json:"turns_per_second"`
	PeakMB     float64 `json:"peak_mb"`
	Seconds    float64 `json:"seconds"`
	Ideal      float64 `json:"ideal_seconds,omitempty"` // the time of the model alone; 0: it takes none
	Ratio      float64 `json:"ratio,omitempty"`         // Seconds by Ideal
	typedFigures
}

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

// stagger is the time over which the first rollouts start, so that a model with a latency
// is not asked by all of them at the same moments.
func (b Bench) stagger() time.Duration { return b.Latency }

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

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	mid := len(list) / 2
	if len(list)%2 == 0 {
		return (list[mid-1] + list[mid]) / 2
	}
	return list[mid]
}

// Lines are the figures for people.
func (f Figures) Lines() string {
	if f.Command != "" {
		return f.typedLines()
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %d rollouts of %d turns, %d bytes of context, %d in flight, median of %d rounds\n", f.Shape, f.Rollouts, f.Turns, f.Context, f.InFlight, f.Rounds)
	fmt.Fprintf(&s, "  processor  %.0f µs a turn, %.2f ms a trajectory", f.CPUPerTurn, f.CPUEach)
	if f.Floor > 0 {
		fmt.Fprintf(&s, " (bare net/http: %.0f µs a turn)", f.Floor)
	}
	fmt.Fprintf(&s, "\n  speed      %.0f turns/s, %.2f s", f.PerSecond, f.Seconds)
	if f.Ideal > 0 {
		fmt.Fprintf(&s, ", %.3f × the %.2f s that the model takes", f.Ratio, f.Ideal)
	}
	fmt.Fprintf(&s, "\n  memory     %.0f MB at the peak\n", f.PeakMB)
	return s.String()
}

// processor is the time that this process has spent on processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that this process has had resident, in MB (10⁶ bytes).
func peak() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Maxrss) * 1024 / 1e6
}

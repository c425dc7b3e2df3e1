// Package batch rolls out every row of a dataset or an environment into a run directory,
// prints its plan, and writes the groups of an environment's rollouts.
package batch

import (
	"context"
	"errors"
	"fmt"

	"hermes/envs/grade/figures"
	"hermes/internal/build"
	"hermes/internal/control"
	"hermes/internal/exit"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/progress"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// Run does the whole job and returns its books. The error, if any, has its exit code.
func Run(ctx context.Context, h build.Host, q rollouts.Request) (books stats.Statistics, err error) {
	if q.Tracked == nil {
		q.Tracked = &build.Tracked{}
		defer func() { q.Tracked.Close(h, err) }()
	}
	r, err := rollouts.Open(ctx, h, q, nil)
	if err != nil {
		return books, err
	}
	defer r.Close()
	want, err := r.Manifest()
	if err != nil {
		return books, exit.Usage(err)
	}
	if q.Suite != nil {
		sayPower(r)
	}
	if r.DryRun {
		if err := plan(ctx, r, want); err != nil {
			return books, exit.Usage(err)
		}
		return stats.Statistics{Planned: want.Extent.Planned, Pending: want.Extent.Planned}, nil
	}
	if err := r.OpenDir(ctx, want, false); err != nil {
		return books, err
	}
	return roll(ctx, r)
}

// roll runs the engine and closes the books.
func roll(ctx context.Context, r *rollouts.Run) (books stats.Statistics, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bar, err := progress.New(progress.Options{Mode: progress.Mode(r.Progress), Out: r.Host.Bar(), Width: r.Host.Width,
		Total: r.Dir.Manifest.Extent.Planned, Kept: int64(r.Dir.Journal.Stats().Done)})
	if err != nil {
		return books, exit.Usage(err)
	}
	r.Later(bar.Close)
	if err := r.Follow(ctx, bar.Writer(), r.Mode, cancel); err != nil {
		return books, err
	}
	meter := control.NewMeter(nil)
	watch := event.All(bar, r.Metrics(ctx, cancel), meter)
	project, err := sink.New(r.Dir.Journal, r.Dir.Path, r.Dir.Manifest, sink.Options{Log: r.Log})
	if err != nil {
		return books, exit.Ours(err)
	}
	project.Follow(ctx)
	memory := settings.Memory(r.Memory, "/")
	defer build.HoldMemory(memory)()
	eng, err := newEngine(r, watch, memory)
	if err != nil {
		return books, exit.Usage(err)
	}
	unsteer := r.Listen(ctx, r.Steered(eng, meter, project))
	untrack := r.Tracked.Follow(ctx, project)
	sum := eng.Run(ctx, r.Host.Drain, r.Rows(ctx, r.Data))
	untrack()
	unsteer()
	books, err = project.Finish(ctx)
	r.Tracked.Books(books)
	switch {
	case errors.Is(sum.Stopped, engine.ErrLog): // the projections fail with the log
		return books, exit.Ours(sum.Stopped)
	case err != nil:
		return books, exit.Ours(err)
	}
	return books, r.Verdict(sum, books)
}

func newEngine(r *rollouts.Run, watch event.Observer, memory int64) (*engine.Engine, error) {
	one, err := r.Runner(watch)
	if err != nil {
		return nil, err
	}
	o := r.EngineOptions(memory)
	o.Rollouts = r.Rollouts
	o.Toolsets = r.Tools.Draw
	o.Observer = watch
	return engine.New(one, r.Dir.Journal, o)
}

// sayPower tells, before anything is spent, what an evaluation will be able to find.
func sayPower(r *rollouts.Run) {
	n := int(r.Report.Rows)
	if n == 0 {
		return
	}
	fmt.Fprintf(r.Host.Err, "hermes: %d tasks, %d rollouts each: a comparison of two such runs finds differences of %.3f and more "+
		"(80 %% power, 5 %% significance, rates near 0.5, results that correlate by 0.5; unrelated ones: %.3f)\n",
		n, r.Rollouts, figures.MDE(n, 0.5, 0.5, 0.05, 0.8), figures.MDE(n, 0.5, 0, 0.05, 0.8))
}

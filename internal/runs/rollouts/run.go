// Package rollouts opens everything that rolling rows out into a run directory takes:
// rows, model, judges, boxes, tools, directory, runner, control socket. Batches,
// evaluations and environments that are served do it alike; what they do with an open
// [Run] is theirs.
package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/rows"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/artifact"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/rollout/tool"
)

// Request is what a run is asked for.
type Request struct {
	Batch   settings.Batch
	Layers  []configs.Setting // where each setting came from, for run.yaml
	Env     *build.Env        // rows, tasks and scores are its own; nil: those of the datasets
	Suite   *Suite            // nil: it is no evaluation
	Tracked *build.Tracked    // whoever evaluates closes it; nil: the run does
}

// Suite is the evaluation that a run is part of.
type Suite struct {
	Name  string
	Judge string // by what is judged; "": as the grader says
}

// Run is an open run. What it embeds does not change.
type Run struct {
	settings.Job
	Request
	Host   build.Host
	Log    *slog.Logger
	Data   *datasets.Dataset
	Report datasets.Report
	Model  *build.Model
	Roles  *build.Roles
	Boxes  *build.Boxes
	Tools  *build.Tools
	Dir    *rundir.Dir // after OpenDir

	tasks   envs.Env
	words   rows.Options      // of plain rows
	moved   map[string]string // ids that rows without one have now, and those that they had
	closers build.Closers
}

// Later has f called by Close, before what was opened earlier.
func (r *Run) Later(f func() error) { r.closers.Add(f) }

// Close gives everything back. What fails is logged.
func (r *Run) Close() { r.closers.Log(r.Log) }

// Follow logs to w from now on, sends figures to W&B, and ends the run with cancel when its
// directory is lost to another process. job is what the run does.
func (r *Run) Follow(ctx context.Context, w io.Writer, job string, cancel context.CancelCauseFunc) error {
	r.Log = slog.New(r.Host.Handler(w))
	r.Env.LogTo(r.Log)
	dir := r.Dir // the runs of other environments get it next
	go func() {
		select {
		case <-dir.Lease.Lost():
			cancel(fmt.Errorf("run directory %s: %w", dir.Path, dir.Lease.Err()))
		case <-ctx.Done():
		}
	}()
	return r.Tracked.Open(ctx, r.Host, r.WandbFlags, r.Dir, job, r.Log)
}

// EngineOptions are those that every way of running the engine has.
func (r *Run) EngineOptions(memory int64) engine.Options {
	return engine.Options{InFlight: r.Concurrency, Guess: r.guess(), Tries: r.Retries + 1, StopAfter: r.StopAfter, Drain: r.DrainTimeout, Seed: r.Seed, Memory: memory, Log: r.Log}
}

// guess is what a rollout may need at most: exact ones hold every token. 0: a text
// conversation, whose usual size is known.
func (r *Run) guess() int64 {
	if r.Model.Exact == nil {
		return 0
	}
	least := int64(0)
	for _, n := range []int64{int64(r.Model.Policy.Info().Context), r.MaxTotalTokens, int64(r.MaxTokens) * int64(r.MaxTurns)} {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return engine.GuessTokens(cmp.Or(least, 32<<10))
}

// Runner takes one sample from row to record.
func (r *Run) Runner(watch event.Observer) (*rollout.Runner, error) {
	sampling := r.SamplingFlags.Options()
	if r.Model.Exact != nil {
		sampling.Put = rundir.NewBlobs(nil, r.Dir.Path).Put
	}
	keep, err := artifact.New(filepath.Join(r.Dir.Path, "artifacts"), r.Keep, artifact.Options{})
	if err != nil {
		return nil, err
	}
	return rollout.NewRunner(rollout.Options{Env: r.tasks, Policy: r.Model.Policy, Judge: r.Roles.Policy(policy.Judge), Judges: r.Roles.Judges(), Backend: r.Boxes.Backend, Plan: r.Tools.Plan,
		Tools: tool.SetOptions{ResultLimit: r.ResultChars, TurnLimit: r.TurnChars},
		Image: r.Image, Verify: r.Verify, VerifyImage: r.VerifyImage,
		Sampling: sampling, SendScripts: r.Model.Scripted(),
		Limits: rollout.Limits{Turns: r.MaxTurns, Tokens: r.MaxTotalTokens},
		Faults: rollout.FaultRule(r.Faults), RunCalls: r.Calls,
		Deadlines: rollout.Deadlines{Loop: r.Timeout},
		Observer:  watch, Log: r.Log,
		Keep: keep.Keep})
}

// Metrics serves the page for Prometheus, when asked to.
func (r *Run) Metrics(ctx context.Context, cancel context.CancelCauseFunc) event.Observer {
	if r.RunFlags.Metrics == "" {
		return nil
	}
	m := prom.New()
	m.SetPlanned(r.Dir.Manifest.Extent.Planned)
	m.Also(r.Boxes.WriteMetrics)
	l, err := prom.Listen(ctx, r.RunFlags.Metrics)
	if err != nil {
		cancel(exit.Usage(fmt.Errorf("--metrics: %w", err)))
		return nil
	}
	ended := make(chan error, 1)
	sctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- prom.Serve(sctx, l, m) }()
	r.closers.Add(func() error { stop(); return <-ended })
	return m
}

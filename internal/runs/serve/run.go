package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hermes/configs"
	"hermes/envs"
	loop "hermes/internal/atropos/serve"
	"hermes/internal/build"
	"hermes/internal/control"
	"hermes/internal/exit"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// Run serves until the trainer has its steps or something ends it. Bad input, a text
// policy and a missing trainer are found before anything is spent.
func Run(ctx context.Context, h build.Host, s settings.Serve, layers []configs.Setting) (loop.Totals, stats.Statistics, error) {
	r := &server{Serve: s, host: h, layers: layers}
	defer func() {
		for i := len(r.parts) - 1; i >= 0; i-- {
			r.parts[i].Close()
			_ = r.parts[i].Env.Close() // of a program that ends anyway
		}
	}()
	for _, step := range []func(context.Context) error{r.check, r.reach, r.open} {
		if err := step(ctx); err != nil {
			return loop.Totals{}, stats.Statistics{}, exit.Usage(err)
		}
	}
	if s.DryRun {
		fmt.Fprintf(h.Err, "%d environments, groups of %d, with %s: all is well; a trainer was not looked for\n", len(r.parts), s.Rollouts, r.parts[0].Model.Name)
		return loop.Totals{}, stats.Statistics{}, nil
	}
	return r.roll(ctx)
}

// roll opens the run directory and serves.
func (r *server) roll(ctx context.Context) (t loop.Totals, s stats.Statistics, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := r.parts[0]
	want, err := r.manifest()
	if err != nil {
		return t, s, exit.Usage(err)
	}
	if err := first.OpenDir(ctx, want, true); err != nil {
		return t, s, err
	}
	dir := first.Dir
	done := int64(dir.Journal.Stats().Done)
	before, err := cursors(ctx, dir.Journal)
	if err != nil {
		return t, s, exit.Ours(err)
	}
	defer func() { first.Tracked.Close(r.host, err) }()
	if err := first.Follow(ctx, r.host.Err, "serve", cancel); err != nil {
		return t, s, err
	}
	meter, live := control.NewMeter(nil), &servedBooks{totals: stats.New(nil)}
	scraped := first.Metrics(ctx, cancel)
	calls := &loop.Calls{}
	watch := event.All(scraped, meter, live, calls)
	memory := settings.Memory(r.Memory, "/")
	defer build.HoldMemory(memory)()
	var list []loop.Env
	for i, b := range r.parts {
		b.Dir = dir
		e, err := r.env(ctx, b, r.weights[i], watch)
		if err != nil {
			return t, s, exit.Usage(err)
		}
		list = append(list, e)
	}
	o := loop.Options{GroupSize: r.Rollouts, Rules: r.rules, MaxTokenLength: r.MaxTokenLength, MinAllocation: r.MinBatchAllocation, OffPolicy: r.OffPolicy,
		TotalSteps: r.TotalSteps, StepsPerEval: r.StepsPerEval, EvalHandling: loop.EvalHandling(r.EvalHandling), EvalLimit: r.EvalLimitRatio, LogAfter: r.LogAfter, MaxStale: r.MaxStaleGroups,
		Messages: r.SendMessages, Generation: first.Generation(), Seed: r.Seed, Replicas: max(1, r.shard.N), Wait: max(r.Wait, time.Millisecond), Poll: r.Poll,
		Dir: dir.Path, Before: before, GroupsFile: r.GroupsFile, Log: first.Log, Say: func(text string) { fmt.Fprintln(r.host.Err, "hermes: "+text) },
		Engine: first.EngineOptions(memory), Observer: watch, Calls: calls,
		Planned: func(n int64) error { return plan(dir, done+n, planAhead) },
		Figures: func(line, step int64, values map[string]float64) {
			values = maps.Clone(values)
			values["trainer/step"] = float64(step)
			first.Tracked.Log(line, values)
		}}
	if o.OffPolicy == 0 {
		o.OffPolicy = -1
	}
	var srv *loop.Server
	o.Begun = func(e *engine.Engine) func() { return first.Listen(ctx, &steered{first.Steered(e, meter, live), srv}) }
	srv, err = loop.New(r.client, dir.Journal, list, o)
	if err != nil {
		return t, s, exit.Usage(err)
	}
	if m, ok := scraped.(*prom.Metrics); ok {
		m.Also(srv.WriteMetrics)
	}
	sum, err := srv.Run(ctx, r.host.Drain)
	t = srv.Totals()
	if errors.Is(err, loop.ErrTrainer) {
		return t, s, exit.Usage(err)
	}
	if err != nil {
		return t, s, exit.Ours(err)
	}
	s, err = r.books(context.WithoutCancel(ctx), dir)
	if err != nil {
		return t, s, exit.Ours(err)
	}
	return t, s, first.Verdict(sum, s)
}

// env is an environment as the loop serves it.
func (r *server) env(ctx context.Context, b *rollouts.Run, weight float64, watch event.Observer) (loop.Env, error) {
	run, err := b.Runner(cmp.Or(watch, event.Discard))
	if err != nil {
		return loop.Env{}, err
	}
	e := loop.Env{Name: b.Env.Name, Weight: weight, Desired: r.EnvName, Runner: run, Rows: epochs(b), Toolsets: b.Tools.Draw}
	_, scores := b.Env.Bundled.(envs.GroupScorer)
	_, notes := b.Env.Bundled.(envs.Annotator)
	if scores || notes {
		e.Finish = finisher(b)
	}
	if r.StepsPerEval > 0 {
		if err := splitHas(ctx, b.Env, envs.Eval, r.host.Drain); err != nil {
			fmt.Fprintf(r.host.Err, "hermes: %s is not evaluated: it has no evaluation split (%v)\n", b.Env.Name, err)
			return e, nil
		}
		e.Evaluate = (&evalSplit{of: b, run: run, rows: r.EvalRows, atOnce: r.EvalWorkers}).figures
	}
	return e, nil
}

// manifest is what run.yaml will say.
func (r *server) manifest() (rundir.Manifest, error) {
	first := r.parts[0]
	m, err := first.Manifest()
	if err != nil {
		return m, err
	}
	var prints, ids []string
	tools := map[string]bool{}
	for _, b := range r.parts {
		print, err := b.Data.Fingerprint(context.Background())
		if err != nil {
			return m, err
		}
		prints, ids = append(prints, print), append(ids, b.Env.Identity())
		for _, name := range b.Tools.Names() {
			if !tools[name] && !slices.Contains(m.Tools, name) {
				m.Tools = append(m.Tools, name)
			}
			tools[name] = true
		}
	}
	m.Extent = rundir.Extent{Dataset: strings.Join(prints, "+"), Rollouts: 1}
	for i, f := range m.Identity {
		if f.Name == "env" {
			m.Identity[i].Value = "serve " + strings.Join(ids, " + ")
		}
	}
	return m, nil
}

// planAhead is how many samples run.yaml plans beyond those that were begun, so that it is
// not written for each of them.
const planAhead = 4096

// plan writes the number of samples into run.yaml, where it has grown.
func plan(dir *rundir.Dir, n, ahead int64) error {
	if n <= dir.Manifest.Extent.Planned {
		return nil
	}
	dir.Manifest.Extent.Planned = n + ahead
	return rundir.Write(journal.OS{}, dir.Path, dir.Manifest)
}

// books closes the books: what was begun and not finished is not planned any more, since a
// row that is served again has its own samples.
func (r *server) books(ctx context.Context, dir *rundir.Dir) (stats.Statistics, error) {
	dir.Manifest.Extent.Planned = int64(dir.Journal.Stats().Done)
	if err := rundir.Write(journal.OS{}, dir.Path, dir.Manifest); err != nil {
		return stats.Statistics{}, err
	}
	p, err := sink.New(dir.Journal, dir.Path, dir.Manifest, sink.Options{Log: r.parts[0].Log})
	if err != nil {
		return stats.Statistics{}, err
	}
	return p.Finish(ctx)
}

// cursors are the places that earlier starts have kept.
func cursors(ctx context.Context, j *journal.Journal) (out []loop.Cursor, err error) {
	for e, err := range j.Records(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if e.Kind != journal.KindCursor {
			continue
		}
		raw, err := e.Place()
		if err != nil {
			return nil, err
		}
		var c loop.Cursor
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("the place in the rows at offset %d: %w", e.At, err)
		}
		out = append(out, c)
	}
	return out, nil
}

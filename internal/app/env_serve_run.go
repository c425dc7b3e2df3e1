package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/atropos/serve"
	"hermes/internal/control"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// roll opens the run directory and serves.
func (r *server) roll(ctx context.Context) (t serve.Totals, s stats.Statistics, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := r.parts[0]
	want, err := r.manifest()
	if err != nil {
		return t, s, usage(err)
	}
	first.Amend, first.served = true, true
	if err := first.openDir(ctx, want); err != nil {
		return t, s, err
	}
	dir := first.dir
	done := int64(dir.Journal.Stats().Done)
	before, err := cursors(ctx, dir.Journal)
	if err != nil {
		return t, s, &Error{Code: codeOurs, Err: err}
	}
	first.tracked = &tracked{}
	if err := first.track(ctx, "serve"); err != nil {
		return t, s, err
	}
	defer func() { first.tracked.close(r.host, err) }()
	meter, live := control.NewMeter(nil), &servedBooks{totals: stats.New(nil)}
	scraped := first.metrics(ctx, cancel)
	calls := &serve.Calls{}
	watch := event.All(scraped, meter, live, calls)
	memory := budget(r.Memory, "/")
	defer holdMemory(memory)()
	var list []serve.Env
	for i, b := range r.parts {
		b.dir = dir
		e, err := r.env(ctx, b, r.weights[i], watch)
		if err != nil {
			return t, s, usage(err)
		}
		list = append(list, e)
	}
	o := serve.Options{GroupSize: r.Rollouts, Rules: r.rules, MaxTokenLength: r.MaxTokenLength, MinAllocation: r.MinBatchAllocation, OffPolicy: r.OffPolicy,
		TotalSteps: r.TotalSteps, StepsPerEval: r.StepsPerEval, EvalHandling: serve.EvalHandling(r.EvalHandling), EvalLimit: r.EvalLimitRatio, LogAfter: r.LogAfter, MaxStale: r.MaxStaleGroups,
		Messages: r.SendMessages, Generation: first.generation(), Seed: r.Seed, Replicas: max(1, r.shard.N), Wait: max(r.Wait, time.Millisecond), Poll: r.Poll,
		Dir: dir.Path, Before: before, GroupsFile: r.GroupsFile, Log: first.log, Say: func(text string) { fmt.Fprintln(r.host.Err, "hermes: "+text) },
		Engine: first.engineOptions(memory), Observer: watch, Calls: calls,
		Planned: func(n int64) error { return plan(dir, done+n, planAhead) },
		Figures: func(line, step int64, values map[string]float64) {
			values = maps.Clone(values)
			values["trainer/step"] = float64(step)
			first.tracked.log(line, values)
		}}
	if o.OffPolicy == 0 {
		o.OffPolicy = -1
	}
	var srv *serve.Server
	o.Begun = func(e *engine.Engine) func() { return first.steerServe(ctx, srv, e, meter, live) }
	srv, err = serve.New(r.client, dir.Journal, list, o)
	if err != nil {
		return t, s, usage(err)
	}
	if m, ok := scraped.(*prom.Metrics); ok {
		m.Also(srv.WriteMetrics)
	}
	go func() {
		select {
		case <-dir.Lease.Lost():
			cancel(fmt.Errorf("run directory %s: %w", dir.Path, dir.Lease.Err()))
		case <-ctx.Done():
		}
	}()
	sum, err := srv.Run(ctx, r.host.Drain)
	t = srv.Totals()
	if errors.Is(err, serve.ErrTrainer) {
		return t, s, usage(err)
	}
	if err != nil {
		return t, s, &Error{Code: codeOurs, Err: room(err)}
	}
	if s, err = r.books(context.WithoutCancel(ctx), dir); err != nil {
		return t, s, &Error{Code: codeOurs, Err: room(err)}
	}
	return t, s, first.verdict(sum, s)
}

// env is an environment as the loop serves it.
func (r *server) env(ctx context.Context, b *batch, weight float64, watch event.Observer) (serve.Env, error) {
	run, err := b.runner(cmp.Or(watch, event.Discard))
	if err != nil {
		return serve.Env{}, err
	}
	e := serve.Env{Name: b.Env.Name, Weight: weight, Desired: r.EnvName, Runner: run, Rows: b.epoch, Toolsets: b.tools.draw}
	_, scores := b.Env.Bundled.(envs.GroupScorer)
	_, notes := b.Env.Bundled.(envs.Annotator)
	if scores || notes {
		e.Finish = b.finish
	}
	if r.StepsPerEval > 0 {
		if err := b.splitHas(ctx, envs.Eval, r.host.Drain); err != nil {
			fmt.Fprintf(r.host.Err, "hermes: %s is not evaluated: it has no evaluation split (%v)\n", b.Env.Name, err)
			return e, nil
		}
		e.Evaluate = (&evalSplit{batch: b, run: run, rows: r.EvalRows, atOnce: r.EvalWorkers}).figures
	}
	return e, nil
}

// splitHas reports why a split has no rows. A drain ends the search.
func (b *batch) splitHas(ctx context.Context, split envs.Split, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	d, err := b.Env.Rows(ctx, split, datasets.Options{Limit: 1})
	if err != nil {
		return err
	}
	err = errors.New("there are no rows")
	for _, err = range d.Rows(ctx) {
		break
	}
	return errors.Join(err, d.Close())
}

// epoch yields the rows of an epoch; shuffled ones come in an order of its own.
func (b *batch) epoch(ctx context.Context, n int) iter.Seq2[datasets.Row, error] {
	return func(yield func(datasets.Row, error) bool) {
		one := *b
		if b.Shuffle && n > 0 {
			o := datasets.Options{Shuffle: true, Seed: uint64(b.Seed) + uint64(n), Limit: b.Limit}
			var err error
			if b.Shard != "" {
				o.Shard, err = datasets.ParseShard(b.Shard)
			}
			if err == nil {
				one.data, err = b.Env.Rows(ctx, b.Env.Split, o)
			}
			if err != nil {
				yield(datasets.Row{}, err)
				return
			}
			defer one.data.Close()
		}
		one.skipBad(ctx)(yield)
	}
}

// finish lets the environment score a group as a whole and annotate it.
func (b *batch) finish(ctx context.Context, row datasets.Row, recs []*trajectory.Record) (f serve.Finished, err error) {
	for _, r := range recs {
		f.Scores = append(f.Scores, *r.Score)
	}
	if err := b.scoreGroup(ctx, row, recs, f.Scores); err != nil {
		return f, err
	}
	a, ok := b.Env.Bundled.(envs.Annotator)
	if !ok {
		return f, nil
	}
	t, err := b.Env.Task(row)
	if err != nil {
		return f, err
	}
	var eps []envs.Episode
	for _, r := range recs {
		eps = append(eps, envs.Episode{Trace: r.Trace, Stop: r.Stop})
	}
	n, err := a.Annotate(ctx, t, eps, f.Scores)
	if err != nil {
		return f, err
	}
	f.Group = n.Group
	for _, x := range n.Samples {
		f.Notes = append(f.Notes, serve.Annotation(x))
	}
	return f, nil
}

// manifest is what run.yaml will say.
func (r *server) manifest() (rundir.Manifest, error) {
	first := r.parts[0]
	m, err := first.manifest()
	if err != nil {
		return m, err
	}
	var prints, ids []string
	tools := map[string]bool{}
	for _, b := range r.parts {
		print, err := b.data.Fingerprint(context.Background())
		if err != nil {
			return m, err
		}
		prints, ids = append(prints, print), append(ids, b.Env.Identity())
		for _, name := range b.tools.names() {
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
// row that is served again has samples of its own.
func (r *server) books(ctx context.Context, dir *rundir.Dir) (stats.Statistics, error) {
	dir.Manifest.Extent.Planned = int64(dir.Journal.Stats().Done)
	if err := rundir.Write(journal.OS{}, dir.Path, dir.Manifest); err != nil {
		return stats.Statistics{}, err
	}
	p, err := sink.New(dir.Journal, dir.Path, dir.Manifest, sink.Options{Log: r.parts[0].log})
	if err != nil {
		return stats.Statistics{}, err
	}
	return p.Finish(ctx)
}

// cursors are the places that earlier starts have kept.
func cursors(ctx context.Context, j *journal.Journal) (out []serve.Cursor, err error) {
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
		var c serve.Cursor
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("the place in the rows at offset %d: %w", e.At, err)
		}
		out = append(out, c)
	}
	return out, nil
}

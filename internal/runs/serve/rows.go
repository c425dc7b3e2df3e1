package serve

import (
	"context"
	"errors"
	"iter"

	"hermes/datasets"
	"hermes/envs"
	loop "hermes/internal/atropos/serve"
	"hermes/internal/build"
	"hermes/internal/runs/rollouts"
	"hermes/trajectory"
)

// splitHas reports why a split has no rows. A drain ends the search.
func splitHas(ctx context.Context, env *build.Env, split envs.Split, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	d, err := env.Rows(ctx, split, datasets.Options{Limit: 1})
	if err != nil {
		return err
	}
	err = errors.New("there are no rows")
	for _, err = range d.Rows(ctx) {
		break
	}
	return errors.Join(err, d.Close())
}

// epochs yields the rows of an epoch; shuffled ones come in an order of its own.
func epochs(r *rollouts.Run) func(context.Context, int) iter.Seq2[datasets.Row, error] {
	return func(ctx context.Context, n int) iter.Seq2[datasets.Row, error] {
		if !r.Shuffle || n == 0 {
			return r.Rows(ctx, r.Data)
		}
		return func(yield func(datasets.Row, error) bool) {
			o, err := r.RowOptions(r.Seed + int64(n))
			var data *datasets.Dataset
			if err == nil {
				data, err = r.Env.Rows(ctx, r.Env.Split, o)
			}
			if err != nil {
				yield(datasets.Row{}, err)
				return
			}
			defer data.Close()
			r.Rows(ctx, data)(yield)
		}
	}
}

// finisher lets the environment score a group as a whole and annotate it.
func finisher(b *rollouts.Run) func(context.Context, datasets.Row, []*trajectory.Record) (loop.Finished, error) {
	return func(ctx context.Context, row datasets.Row, recs []*trajectory.Record) (f loop.Finished, err error) {
		for _, r := range recs {
			f.Scores = append(f.Scores, *r.Score)
		}
		if err := b.Env.ScoreGroup(ctx, row, recs, f.Scores); err != nil {
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
			f.Notes = append(f.Notes, loop.Annotation(x))
		}
		return f, nil
	}
}

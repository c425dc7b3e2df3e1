package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hermes/datasets"
	"hermes/envs"
	grades "hermes/envs/grade/figures"
	"hermes/internal/runs/rollouts"
	"hermes/rollout"
	"hermes/trajectory"
)

// evalSplit rolls out the evaluation split of an environment while it is served.
type evalSplit struct {
	of     *rollouts.Run
	run    *rollout.Runner
	rows   int64
	atOnce int

	mu    sync.Mutex
	times int
}

// figures rolls out every row once and returns the means of rewards and metrics. Samples that
// fail without the model's fault are counted, and are no part of the means.
func (e *evalSplit) figures(ctx context.Context) (_ map[string]float64, err error) {
	e.mu.Lock()
	e.times++
	n := e.times
	e.mu.Unlock()
	data, err := e.of.Env.Rows(ctx, envs.Eval, datasets.Options{Limit: e.rows})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	var mu sync.Mutex
	var all sync.WaitGroup
	sums := map[string]grades.Total{}
	counts := map[string]float64{}
	failed := 0.0
	places := make(chan struct{}, e.atOnce)
	for row, rerr := range e.of.Rows(ctx, data) {
		if rerr != nil {
			err = rerr
			break
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			rec, rerr := e.one(ctx, row, n)
			mu.Lock()
			defer mu.Unlock()
			if rerr != nil || rec.Score == nil || rec.Outcome.Failure() {
				failed++
				return
			}
			add := func(name string, x float64) {
				t := sums[name]
				t.Add(x)
				sums[name] = t
				counts[name]++
			}
			add("reward", rec.Score.Reward)
			for name, x := range rec.Score.Metrics {
				add(name, x)
			}
			for name, x := range rec.Score.Parts {
				add("reward/"+name, x)
			}
		})
	}
	all.Wait()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	out := map[string]float64{"samples": counts["reward"], "failed": failed}
	for name, sum := range sums {
		out[name] = sum.Over(counts[name])
	}
	if counts["reward"] == 0 {
		return nil, fmt.Errorf("none of %.0f samples could be scored", failed)
	}
	return out, nil
}

// one rolls out a row; its draws are the same in every evaluation.
func (e *evalSplit) one(ctx context.Context, row datasets.Row, n int) (*trajectory.Record, error) {
	seed := trajectory.NewKey(row.ID, 0, 0, 0).Seed(e.of.Seed)
	key := trajectory.NewKey("eval/"+row.ID, n, 0, 0)
	return e.run.Run(ctx, rollout.Job{Row: row, Key: key, Group: fmt.Sprintf("eval/%s@%d", row.ID, n), Attempt: 1, Toolsets: e.of.Tools.Sets, Seed: seed})
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/serve"
	"hermes/internal/atropos/shape"
	"hermes/internal/build"
	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/journal"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// benchGroup is the size of a trainer's group in a benchmark.
const benchGroup = 8

// paid is a user whose samples have rewards that differ.
type paid struct{ user }

func (paid) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	return trajectory.Score{Reward: float64(ep.Trace.Turns()%2) + float64(t.Row.Index%2)}, nil
}

// serve rolls out for a trainer, with exact tokens, and posts the groups to the trajectory
// server at API, which runs in another process. It returns the turns that it took.
func (b Bench) serve(ctx context.Context, dir string) (turns int64, err error) {
	if err := b.trainer(ctx); err != nil {
		return 0, fmt.Errorf("register a trainer: %w", err)
	}
	w, err := wire.New(wire.Options{Bases: []string{b.Base}, Concurrency: b.InFlight})
	if err != nil {
		return 0, err
	}
	defer w.Close()
	m, err := build.OpenExact(ctx, settings.ExactFlags{Wire: "sglang", Tokenizer: settings.BenchTokenizer, Template: "builtin:chatml", History: "append"}, hfhub.Options{}, time.Now())
	if err != nil {
		return 0, err
	}
	pol, err := m.Policy(w, settings.Parts{PartsFlags: settings.PartsFlags{SamplingFlags: settings.SamplingFlags{MaxTokens: 1000}}}, "fake", 0, nil, nil)
	if err != nil {
		return 0, err
	}
	log, err := journal.Open(dir, journal.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	watch := event.All(prom.New())
	r, err := rollout.NewRunner(rollout.Options{Policy: pol, Env: paid{user{step: b.step(), turns: b.Turns}}, SendScripts: true, Observer: watch})
	if err != nil {
		return 0, err
	}
	c, err := client.New(b.API, client.Options{})
	if err != nil {
		return 0, err
	}
	rules := shape.Rules{EqualScores: "send"}
	if err := rules.Check(); err != nil {
		return 0, err
	}
	drain := make(chan struct{})
	enough := sync.OnceFunc(func() { close(drain) })
	s, err := serve.New(c, log, []serve.Env{{Name: "bench", Weight: 1, Runner: r, Rows: b.epoch}}, serve.Options{
		GroupSize: benchGroup, Rules: rules, MaxTokenLength: 1 << 20, OffPolicy: -1, TotalSteps: -1, Dir: dir, Observer: watch,
		Engine: engine.Options{InFlight: b.InFlight, Drain: time.Hour, Log: slog.New(slog.DiscardHandler)},
		Planned: func(n int64) error {
			if n >= int64(b.Rollouts) {
				enough()
			}
			return nil
		}})
	if err != nil {
		return 0, err
	}
	sum, err := s.Run(ctx, drain)
	if err != nil {
		return 0, err
	}
	groups := s.Totals().Groups
	left := sum.Ended - groups*benchGroup // of the group that was being admitted when there were enough
	if st := w.Stats(); st.Retries > 0 || st.Bought != sum.Ended*int64(b.Turns) || left < 0 || left >= benchGroup {
		return 0, fmt.Errorf("%d answers were bought with %d retries, %d of %d rollouts were posted, want all without: the figures say nothing",
			st.Bought, st.Retries, groups*benchGroup, sum.Ended)
	}
	return w.Stats().Bought, context.Cause(ctx)
}

// trainer registers one that takes nothing and asks for a batch, so that environments may
// come.
func (b Bench) trainer(ctx context.Context) error {
	for _, call := range [][3]string{{http.MethodGet, "/reset_data", ""},
		{http.MethodPost, "/register", `{"wandb_group":"","wandb_project":"","batch_size":1048576,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`},
		{http.MethodGet, "/batch", ""}} {
		resp, err := send(ctx, http.DefaultClient, call[0], b.API+call[1], []byte(call[2]))
		if err != nil {
			return err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", call[0], call[1], resp.Status)
		}
	}
	return nil
}

// epoch are the rows, of which a trainer wants a group each.
func (b Bench) epoch(ctx context.Context, n int) iter.Seq2[datasets.Row, error] {
	one := b
	one.Rollouts, one.InFlight = max(1, b.Rollouts/benchGroup), max(1, b.InFlight/benchGroup)
	if n > 0 {
		one.Latency = 0 // the first ones are under way
	}
	return one.rows(ctx)
}

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/remote"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/serve"
	"hermes/internal/atropos/shape"
	"hermes/rollout/policy/exact"
	"hermes/trajectory/stats"
)

// ServeFlags say how environments are served to a trainer.
type ServeFlags struct {
	API                string        `name:"api" default:"http://127.0.0.1:8000" help:"Trajectory server, such as 'hermes run-api'." placeholder:"URL"`
	APITokenEnv        string        `name:"api-token-env" help:"Environment variable that holds the trajectory server's token." placeholder:"NAME"`
	EnvName            string        `name:"env-name" help:"Name to register under (default: the environment's)." placeholder:"NAME"`
	InferenceWeight    float64       `name:"inference-weight" default:"1" help:"Weight among the environments of the trajectory server; those of NAME=WEIGHT share it."`
	MaxTokenLength     int           `name:"max-token-length" default:"2048" range:"1:" help:"Longest sequence that is registered; the trainer's own limit is what counts."`
	MinBatchAllocation *float64      `name:"min-batch-allocation" range:"0:1" help:"Share of each batch that each environment wants." placeholder:"SHARE"`
	OffPolicy          int           `name:"max-batches-offpolicy" default:"3" help:"Batches in the trainer's queue beyond which nothing new is begun; 0 or less: no bound."`
	TotalSteps         int64         `name:"total-steps" default:"0" range:"-1:" help:"Trainer steps after which it ends (default: the trainer's number; -1: never)."`
	StepsPerEval       int64         `name:"steps-per-eval" default:"100" help:"Trainer steps between two evaluations; 0: none."`
	EvalHandling       string        `name:"eval-handling" enum:"STOP_TRAIN,LIMIT_TRAIN,NONE" default:"STOP_TRAIN" help:"Training rollouts during an evaluation: STOP_TRAIN, LIMIT_TRAIN, NONE."`
	EvalLimitRatio     float64       `name:"eval-limit-ratio" default:"0.5" range:"0:1" help:"Share of the rollouts that LIMIT_TRAIN leaves."`
	EvalWorkers        int           `name:"eval-workers" default:"16" range:"1:" help:"Rollouts of an evaluation at once."`
	EvalRows           int64         `name:"eval-rows" default:"64" range:"1:" help:"Rows of the evaluation split that an evaluation uses."`
	LogAfter           int           `name:"log-after" default:"2" range:"1:" help:"Groups sent before metrics are written again."`
	EqualScores        string        `name:"equal-scores" enum:",drop,send,resample" default:"" help:"Groups whose scores are all the same: drop, send, resample (default: as the run file's section training says, else drop)."`
	MaxStaleGroups     int           `name:"max-stale-groups" default:"1000" range:"0:" help:"Groups in a row that no trainer can use (all rewards equal, say), behind which it ends; 0: it never does."`
	SendMessages       bool          `name:"send-messages" help:"Send the conversations with the tokens."`
	GroupsFile         string        `name:"groups-file" help:"Also write the groups that were sent into this file." placeholder:"FILE"`
	Forks              string        `enum:"reject,last" default:"reject" help:"A template that rewrites the past: reject it at the start, or send the last sequence of each sample."`
	Wait               time.Duration `default:"5m" range:"0s:" help:"How long to wait for a trainer at the start."`
	Poll               time.Duration `default:"250ms" range:"1ms:" help:"Time between two looks at the trainer's queue."`
	Shuffle            bool          `help:"Another seeded order of the rows in each epoch."`
	Limit              int64         `help:"Rows of an epoch."`
	Shard              string        `help:"i/n: this process takes part i of the rows and of the weight." placeholder:"I/N"`
}

// Serve is everything that `hermes env serve` can be told.
type Serve struct {
	Envs []string // NAME or NAME=WEIGHT
	Set  []string // KEY=VALUE of the only one, or NAME.KEY=VALUE
	ServeFlags
	Batch // model, tools and run; Env and the rows are its own
}

// server is one run of `env serve` on its way through its phases.
type server struct {
	Serve
	host    Host
	rules   shape.Rules
	parts   []*batch // one for each environment; they share model and boxes
	weights []float64
	shard   datasets.Shard
	client  *client.Client
}

// Run serves until the trainer has its steps or something ends it. Bad input, a text
// policy and a missing trainer are found before anything is spent.
func (s Serve) Run(ctx context.Context, h Host) (serve.Totals, stats.Statistics, error) {
	r := &server{Serve: s, host: h}
	defer func() {
		for i := len(r.parts) - 1; i >= 0; i-- {
			r.parts[i].closeAll()
			_ = r.parts[i].Env.Close() // of a program that ends anyway
		}
	}()
	for _, step := range []func(context.Context) error{r.check, r.reach, r.open} {
		if err := step(ctx); err != nil {
			return serve.Totals{}, stats.Statistics{}, usage(err)
		}
	}
	if s.DryRun {
		fmt.Fprintf(h.Err, "%d environments, groups of %d, with %s: all is well; a trainer was not looked for\n", len(r.parts), s.Rollouts, r.parts[0].model.name)
		return serve.Totals{}, stats.Statistics{}, nil
	}
	return r.roll(ctx)
}

// check reads everything that needs no part at all.
func (r *server) check(context.Context) error {
	if !r.Exact {
		return errors.New("env serve trains on tokens, and this policy is text: add --exact with --wire sglang, vllm, llamacpp or chat (see docs/exact.md), or use 'hermes env process' for groups without a trainer")
	}
	section := r.host.Section("training")
	if err := section.Decode(&r.rules); err != nil {
		return err
	}
	r.rules.EqualScores = cmp.Or(r.EqualScores, r.rules.EqualScores)
	if err := r.rules.Check(); err != nil {
		if bad := new(shape.RuleError); errors.As(err, &bad) {
			return section.Sub(bad.Key).Errorf("%s", bad.Text)
		}
		return err
	}
	if !(r.InferenceWeight > 0) {
		return fmt.Errorf("--inference-weight %g: want more than 0", r.InferenceWeight)
	}
	var err error
	if r.Shard != "" {
		if r.shard, err = datasets.ParseShard(r.Shard); err != nil {
			return err
		}
	}
	o := client.Options{}
	if r.APITokenEnv != "" {
		if o.Token = r.host.Env(r.APITokenEnv); o.Token == "" {
			return fmt.Errorf("--api-token-env %s: the variable is not set", r.APITokenEnv)
		}
	}
	if r.client, err = client.New(r.API, o); err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	for name, list := range map[string][]string{"--env-name": r.Envs} {
		if r.EnvName != "" && len(list) > 1 {
			return fmt.Errorf("%s is for one environment, and %d are named", name, len(list))
		}
	}
	return nil
}

// reach looks for the trajectory server before any part is made.
func (r *server) reach(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	_, err := r.client.Info(ctx)
	if err != nil {
		err = fmt.Errorf("--api %s: no trajectory server answers; start 'hermes run-api' or Atropos' run-api, then the trainer, or name another address: %w", origin(r.API), err)
	}
	return err
}

// open makes the parts: model and boxes once, rows and tools for each environment.
func (r *server) open(ctx context.Context) error {
	sum := 0.0
	for _, text := range r.Envs {
		name, weight, err := nameWeight(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(r.parts, func(b *batch) bool { return b.Env.Name == EnvName(name) }) {
			return fmt.Errorf("environment %s is named twice", name)
		}
		set, err := r.settings(name)
		if err != nil {
			return err
		}
		env, err := OpenEnv(ctx, name, envs.Train, set, r.host.Section("envs"), r.host.Envs)
		if err != nil {
			return err
		}
		sum += weight
		r.weights = append(r.weights, weight)
		if err := r.openOne(ctx, env); err != nil {
			return err
		}
	}
	for i := range r.weights {
		r.weights[i] *= r.InferenceWeight / sum
	}
	return r.keepsTokens()
}

// nameWeight reads NAME or NAME=WEIGHT.
func nameWeight(text string) (string, float64, error) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return text, 1, nil
	}
	w, err := strconv.ParseFloat(text[i+1:], 64)
	if _, _, program, bad := remote.Named(text[:i]); err != nil && program && bad == nil {
		return text, 1, nil // the = is one of the program's arguments
	}
	if err != nil || !(w > 0) || w > 1e6 {
		return "", 0, fmt.Errorf("%s: the weight %q is no number above 0", text, text[i+1:])
	}
	return text[:i], w, nil
}

// settings are those of --set that are for an environment.
func (r *server) settings(name string) (set []string, err error) {
	for _, text := range r.Set {
		owner, rest, ok := strings.Cut(text, ".")
		if len(r.Envs) == 1 && (!ok || owner != EnvName(name)) {
			set = append(set, text) // of the only one there is
			continue
		}
		if !ok || !slices.Contains(r.names(), owner) {
			return nil, fmt.Errorf("--set %s: with several environments, want NAME.KEY=VALUE", text)
		}
		if owner == EnvName(name) {
			set = append(set, rest)
		}
	}
	return set, nil
}

func (r *server) openOne(ctx context.Context, env *ChosenEnv) error {
	env.logTo(slog.New(r.host.Handler(r.host.Err)))
	b := &batch{Batch: r.Batch}
	b.Env = env
	b.RowFlags = RowFlags{Limit: r.ServeFlags.Limit, Shuffle: r.ServeFlags.Shuffle, Shard: r.ServeFlags.Shard, BadRows: "fail"}
	if b.RunFlags.Run == "" {
		b.RunFlags.Run = "serve-" + strings.Join(r.names(), "-")
	}
	b.parts = newParts(r.host, asked{PartsFlags: b.PartsFlags, requests: b.Concurrency, watch: true, seed: b.Seed, usual: env.toolsets()})
	steps := []func(context.Context) error{b.check, b.openData, b.openModel, b.openRoles, b.openBoxes, b.openTools}
	if len(r.parts) > 0 {
		first := r.parts[0]
		if first.oracle != nil {
			return errors.New("--model oracle plays one environment at a time")
		}
		b.model, b.boxes = first.model, first.boxes
		share := func(context.Context) error { b.roles = first.roles; return nil }
		steps = []func(context.Context) error{b.check, b.openData, share, b.openTools}
	}
	r.parts = append(r.parts, b)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// names are the short names of the environments.
func (r *server) names() (list []string) {
	for _, text := range r.Envs {
		name, _, _ := nameWeight(text) // open has said what is wrong with it
		list = append(list, EnvName(name))
	}
	return list
}

// keepsTokens refuses a template with which more than 5 % of the rollouts would lose
// sampled tokens: each conversation of more than one turn would fork, and of a fork only
// the last sequence is sent.
func (r *server) keepsTokens() error {
	if r.Forks == "last" {
		return nil
	}
	forks := func(c exact.Continuation) bool { return c == exact.Forks || c == exact.Refused }
	for _, p := range r.parts[0].model.proofs {
		for _, b := range r.parts {
			_, speaks := b.Env.Bundled.(envs.Responder)
			_, brings := b.Env.Bundled.(envs.Tooler)
			what := ""
			switch {
			case (brings || len(b.tools.all.Defs) > 0) && forks(p.Results):
				what = "a tool's result"
			case speaks && forks(p.User):
				what = "a user's answer"
			}
			if what != "" {
				return fmt.Errorf("environment %s: after %s this chat template rewrites the past (%s), so that nearly all rollouts of more than one turn would lose sampled tokens, and 5 %% is the most that is accepted; "+
					"use --history append or another --template, or send only the last sequence with --forks last", b.Env.Name, what, cmp.Or(p.Why, "the probe conversation forks"))
			}
		}
	}
	return nil
}

// Package serve serves environments to a trainer: it rolls out groups of their rows as fast
// as the trainer takes them.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/remote"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/shape"
	"hermes/internal/build"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/policy/exact"
)

// server is one run of `env serve` on its way through its phases.
type server struct {
	settings.Serve
	host    build.Host
	layers  []configs.Setting
	rules   shape.Rules
	parts   []*rollouts.Run // one for each environment; they share model and boxes
	weights []float64
	shard   datasets.Shard
	client  *client.Client
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
		r.shard, err = datasets.ParseShard(r.Shard)
		if err != nil {
			return err
		}
	}
	o := client.Options{}
	if r.APITokenEnv != "" {
		o.Token = r.host.Env(r.APITokenEnv)
		if o.Token == "" {
			return fmt.Errorf("--api-token-env %s: the variable is not set", r.APITokenEnv)
		}
	}
	r.client, err = client.New(r.API, o)
	if err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	if r.EnvName != "" && len(r.Envs) > 1 {
		return fmt.Errorf("--env-name is for one environment, and %d are named", len(r.Envs))
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
		err = fmt.Errorf("--api %s: no trajectory server answers; start 'hermes run-api' or Atropos' run-api, then the trainer, or name another address: %w", build.Origin(r.API), err)
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
		if slices.ContainsFunc(r.parts, func(b *rollouts.Run) bool { return b.Env.Name == build.EnvName(name) }) {
			return fmt.Errorf("environment %s is named twice", name)
		}
		set, err := r.settings(name)
		if err != nil {
			return err
		}
		env, err := build.OpenEnv(ctx, name, envs.Train, set, r.host.Section("envs"), r.host.Envs)
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
		if len(r.Envs) == 1 && (!ok || owner != build.EnvName(name)) {
			set = append(set, text) // of the only one there is
			continue
		}
		if !ok || !slices.Contains(r.names(), owner) {
			return nil, fmt.Errorf("--set %s: with several environments, want NAME.KEY=VALUE", text)
		}
		if owner == build.EnvName(name) {
			set = append(set, rest)
		}
	}
	return set, nil
}

func (r *server) openOne(ctx context.Context, env *build.Env) error {
	env.LogTo(r.host.Logger())
	q := rollouts.Request{Batch: r.Serve.Batch(), Layers: r.layers, Env: env, Tracked: &build.Tracked{}}
	if q.Batch.Run == "" {
		q.Batch.Run = "serve-" + strings.Join(r.names(), "-")
	}
	var first *rollouts.Run
	if len(r.parts) > 0 {
		first = r.parts[0]
	}
	if first != nil && first.Parts.Oracle {
		return errors.Join(errors.New("--model oracle plays one environment at a time"), env.Close())
	}
	one, err := rollouts.Open(ctx, r.host, q, first)
	if err != nil {
		return errors.Join(err, env.Close())
	}
	r.parts = append(r.parts, one)
	return nil
}

// names are the short names of the environments.
func (r *server) names() (list []string) {
	for _, text := range r.Envs {
		name, _, _ := nameWeight(text) // open has said what is wrong with it
		list = append(list, build.EnvName(name))
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
	for _, p := range r.parts[0].Model.Proofs {
		for _, b := range r.parts {
			_, speaks := b.Env.Bundled.(envs.Responder)
			_, brings := b.Env.Bundled.(envs.Tooler)
			what := ""
			switch {
			case (brings || len(b.Tools.All.Defs) > 0) && forks(p.Results):
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

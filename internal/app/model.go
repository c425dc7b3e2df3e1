package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
)

// scripted is the name of the embedded model that plays the rows' scripts.
const scripted = "scripted"

// models is the model of a run and what belongs to it.
type models struct {
	name     string
	policy   policy.Policy
	budget   *policy.Spending
	price    *policy.Price
	scripted bool
}

// openModel asks the model server for the model before anything is spent.
func (b *parts) openModel(ctx context.Context) error {
	m := &models{scripted: b.SendScripts}
	b.model = m
	var err error
	if m.price, err = parsePrice(b.Price); err != nil {
		return err
	}
	if b.BudgetUSD != 0 || b.BudgetTokens != 0 || b.BudgetTime != 0 {
		if m.budget, err = policy.NewBudget(policy.Limits{USD: b.BudgetUSD, Tokens: b.BudgetTokens, Time: b.BudgetTime}); err != nil {
			return err
		}
	}
	if b.ExtraBody != "" && !isObject(b.ExtraBody) {
		return fmt.Errorf("--extra-body %q: want a JSON object", b.ExtraBody)
	}
	if b.Model == scripted {
		if err := b.startScripted(ctx); err != nil {
			return err
		}
	}
	if err := b.checkModel(); err != nil {
		return err
	}
	first, err := b.chat(ctx, b.Model, b.BaseURL)
	if err != nil {
		return err
	}
	list := []policy.Policy{first}
	for _, f := range b.Fallback {
		name, url, _ := strings.Cut(f, "@")
		bases := b.BaseURL
		if url != "" {
			bases = []string{url}
		}
		p, err := b.chat(ctx, name, bases)
		if err != nil {
			return fmt.Errorf("--fallback %s: %w", f, err)
		}
		list = append(list, p)
	}
	m.name = first.Info().Model
	m.policy, err = policy.NewFallback(policy.FallbackOptions{}, list...)
	return err
}

// checkModel refuses what no server could make good.
func (b *parts) checkModel() error {
	switch {
	case b.Cassette != "" && b.Record != "":
		return errors.New("--record with --cassette: there is nothing new to record")
	case b.Cassette != "" && (b.Model == "" || b.Model == "auto"):
		return errors.New("--cassette: give --model NAME, the name that was recorded; no server is asked for it")
	case b.Model == "":
		return errors.New("no model: give --model NAME and --base-url URL, or --model scripted for the embedded one")
	}
	return nil
}

// startScripted runs the embedded model on a port of loopback; a cassette needs none.
func (b *parts) startScripted(ctx context.Context) error {
	if len(b.BaseURL) > 0 {
		return fmt.Errorf("--model %s is embedded: leave --base-url out", scripted)
	}
	if b.model.scripted = true; b.Cassette != "" {
		return nil
	}
	s, err := fakellm.New(fakellm.Options{Models: []string{scripted}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	running, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		stop()
		return err
	}
	b.later(func() error { stop(); return running.Wait() })
	b.BaseURL = []string{running.URL + "/v1"}
	return nil
}

// chat opens one model in text mode.
func (b *parts) chat(ctx context.Context, name string, bases []string) (policy.Policy, error) {
	w, err := b.wire(ctx, bases)
	if err != nil {
		return nil, err
	}
	b.later(w.Close)
	o := policy.ChatOptions{Model: name, Stream: b.Stream, ByGroup: b.Affinity == "group", Budget: b.model.budget, Price: b.model.price,
		Extra: json.RawMessage(b.ExtraBody), MaxTokens: b.MaxTokens,
		Routing: policy.Routing{Order: b.ProviderOrder, Only: b.ProviderOnly, Ignore: b.ProviderIgnore, Sort: b.ProviderSort,
			DataCollection: b.ProviderDataCollection, RequireParameters: b.RequireParameters}}
	if b.Cassette == "" {
		found, err := policy.Probe(ctx, w, name)
		if err != nil {
			return nil, err
		}
		o.Model, o.Context, o.Images, o.Profile = found.Model, found.Context, found.Images, &found.Profile
	}
	if b.Server != "" && b.Server != "auto" || b.Cassette != "" {
		server := b.Server
		if server == "auto" {
			server = ""
		}
		p, err := policy.ProfileNamed(server)
		if err != nil {
			return nil, err
		}
		o.Profile = &p
	}
	return policy.NewChat(w, o)
}

func (b *parts) wire(ctx context.Context, bases []string) (*wire.Client, error) {
	o := wire.Options{Bases: bases, Concurrency: b.requests, Retries: b.RequestRetries, Whole: b.RequestTimeout, Idle: b.IdleTimeout, Seed: uint64(b.seed), Log: b.log}
	for _, name := range b.APIKeyEnv {
		if key := b.host.Env(name); key != "" && b.Model != scripted {
			o.Keys = append(o.Keys, key)
		}
	}
	if b.RequestRetries == 0 {
		o.Retries = -1
	}
	switch {
	case b.Cassette != "":
		f, err := os.Open(b.Cassette)
		if err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
		defer f.Close()
		if o.Replay, err = wire.ReadCassette(b.Cassette, f); err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
	case len(bases) == 0:
		found, err := policy.Discover(ctx, policy.LocalBases(), wire.Options{Log: b.log})
		if err != nil && len(found) == 0 {
			return nil, fmt.Errorf("no --base-url, and no model server on this machine answers: %w", err)
		}
		if len(found) == 0 {
			return nil, errors.New("no --base-url, and no model server on this machine answers")
		}
		o.Bases = []string{found[0].Base}
	}
	if b.Record != "" && b.Cassette == "" {
		f, err := os.OpenFile(b.Record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		b.later(f.Close)
		o.Record = wire.NewRecorder(f)
	}
	return wire.New(o)
}

// sampling is what every request carries.
func (b *parts) sampling() policy.Options {
	return policy.Options{MaxTokens: b.MaxTokens, Temperature: b.Temperature, TopP: b.TopP, TopK: b.TopK, MinP: b.MinP, Stop: b.Stop, ReasoningEffort: b.ReasoningEffort}
}

func parsePrice(text string) (*policy.Price, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != 2 && len(parts) != 3 {
		return nil, fmt.Errorf("--price %q: want IN,OUT or IN,OUT,CACHED in dollars per million tokens", text)
	}
	var f [3]float64
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("--price %q: %q is no price", text, p)
		}
		f[i] = v
	}
	price := &policy.Price{Prompt: f[0], Completion: f[1]}
	if len(parts) == 3 {
		price.Cached = &f[2]
	}
	return price, nil
}

func isObject(text string) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &v) == nil
}

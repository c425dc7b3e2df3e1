package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"hermes/internal/fakellm"
	"hermes/internal/hfhub"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// scripted is the name of the embedded model that plays the rows' scripts.
const scripted = "scripted"

// models is the model of a run and what belongs to it.
type models struct {
	name     string
	policy   policy.Policy
	budget   *policy.Spending
	prices   map[string]*policy.Price // by model; "": the run's own
	origins  []string                 // of the run's own servers
	scripted bool
	exact    *exactModel   // nil: text
	proofs   []exact.Proof // of what was opened with exact tokens
}

// openModel asks the model server for the model before anything is spent.
func (b *parts) openModel(ctx context.Context) error {
	m := &models{scripted: b.SendScripts}
	b.model = m
	var err error
	if m.prices, err = parsePrices(b.Price); err != nil {
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
	if b.Exact {
		if b.Model == scripted {
			b.ExactFlags.scripted()
		}
		if m.exact, err = openExact(ctx, b.ExactFlags, b.modelHub(), templateNow(b.runDir)); err != nil {
			return err
		}
	}
	if b.Model == scripted {
		if err := b.startScripted(ctx); err != nil {
			return err
		}
	}
	if err := b.checkModel(); err != nil {
		return err
	}
	first, err := b.open(ctx, served{name: b.Model, bases: b.BaseURL, own: true, rolls: true, price: m.prices[""], budget: m.budget})
	if err != nil {
		return err
	}
	if p := m.prices[first.Info().Model]; p != nil && m.prices[""] != nil {
		return fmt.Errorf("--price names %s, which has a price already: that without a name", first.Info().Model)
	}
	list := []policy.Policy{first}
	for _, f := range b.Fallback {
		name, url, err := policy.SplitModel(f)
		if err != nil {
			return fmt.Errorf("--fallback %s: %w", f, err)
		}
		p, err := b.other(ctx, name, url, m.budget, true)
		if err != nil {
			return fmt.Errorf("--fallback %s: %w", f, err)
		}
		list = append(list, p)
	}
	m.name = first.Info().Model
	m.policy, err = policy.NewFallback(policy.FallbackOptions{}, list...)
	return err
}

// modelHub is where model files are looked for.
func (b *parts) modelHub() hfhub.Options {
	h := Hub(b.host.Env, b.offline)
	h.Log = func(line string) { fmt.Fprintln(b.host.Err, line) }
	return h
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
	o := fakellm.Options{Models: []string{scripted}}
	if m := b.model.exact; m != nil && m.tok != nil {
		var err error
		if o.Tokenizer, err = FakeTokens(m.tok, fakellm.ChatML.End); err != nil {
			return fmt.Errorf("--tokenizer: %w", err)
		}
	}
	s, err := fakellm.New(o)
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

// served is one model and where it is.
type served struct {
	name   string
	bases  []string
	own    bool // the run's own servers, which get the run's keys
	rolls  bool // it writes rollouts, with the run's options
	price  *policy.Price
	budget *policy.Spending
}

// other opens a model beside the run's first one: at url, or at the run's own servers.
func (b *parts) other(ctx context.Context, name, url string, budget *policy.Spending, rolls bool) (policy.Policy, error) {
	s := served{name: name, bases: b.BaseURL, own: true, rolls: rolls, price: b.model.prices[name], budget: budget}
	if url != "" {
		s.bases = []string{url}
		s.own = b.model.ours(s.bases)
	}
	p, err := b.open(ctx, s)
	if err == nil && s.price == nil && budget.InDollars() {
		fmt.Fprintf(b.host.Err, "hermes: %s has no --price %s=IN,OUT: a budget in dollars counts what it costs only where its server tells\n", name, name)
	}
	return p, err
}

// open opens one model: with exact tokens where it writes rollouts of an exact run.
func (b *parts) open(ctx context.Context, s served) (policy.Policy, error) {
	if b.model.exact != nil && s.rolls {
		return b.exact(ctx, s)
	}
	return b.chat(ctx, s)
}

// chat opens one model in text mode.
func (b *parts) chat(ctx context.Context, s served) (policy.Policy, error) {
	w, err := b.wire(ctx, s)
	if err != nil {
		return nil, err
	}
	b.later(w.Close)
	o := chat.Options{Model: s.name, Stream: b.Stream, ByGroup: b.Affinity == "group", Budget: s.budget, Price: s.price}
	if s.rolls {
		if o.Calls, err = b.ExactFlags.unread(); err != nil {
			return nil, err
		}
		o.Extra, o.MaxTokens = json.RawMessage(b.ExtraBody), b.MaxTokens
		o.Routing = chat.Routing{Order: b.ProviderOrder, Only: b.ProviderOnly, Ignore: b.ProviderIgnore, Sort: b.ProviderSort,
			DataCollection: b.ProviderDataCollection, RequireParameters: b.RequireParameters}
	}
	b.known(w)
	if b.Cassette == "" {
		found, err := servers.Probe(ctx, w, s.name)
		if err != nil {
			return nil, err
		}
		o.Model, o.Context, o.Images, o.Profile = found.Model, found.Context, found.Images, &found.Profile
		o.Blind = found.Blind
		if o.Price == nil {
			o.Price = b.model.prices[found.Model]
		}
	}
	if b.Server != "" && b.Server != "auto" && s.own || b.Cassette != "" {
		server := b.Server
		if server == "auto" {
			server = ""
		}
		p, err := servers.Named(server)
		if err != nil {
			return nil, err
		}
		o.Profile = &p
	}
	b.follow(ctx, w, *o.Profile)
	if o.Cache = chat.PromptCache(b.PromptCache); o.Cache != "off" && !s.rolls {
		o.Cache = "auto"
	}
	return chat.New(w, o)
}

// known keeps the first model's servers as the run's own.
func (b *parts) known(w *wire.Client) {
	if b.model.origins == nil {
		for _, base := range w.Bases() {
			b.model.origins = append(b.model.origins, origin(base))
		}
	}
}

// follow lets the requests follow the length of the queue of a server that tells it.
func (b *parts) follow(ctx context.Context, w *wire.Client, p servers.Profile) {
	if b.watch && p.Metrics && w.Watch(ctx, time.Second) {
		b.log.Debug("requests follow the length of the server's queue", "server", w.Bases()[0])
	}
}

func (b *parts) wire(ctx context.Context, s served) (*wire.Client, error) {
	bases := s.bases
	o := wire.Options{Bases: bases, Concurrency: b.requests, Retries: b.RequestRetries, Whole: b.RequestTimeout, Idle: b.IdleTimeout, Seed: uint64(b.seed), Log: b.log}
	var err error // a server that was found and not named gets no key: anyone can listen at its port
	if o.Keys, o.KeyNames, err = b.keysFor(bases, s.own && len(bases) > 0 && b.Model != scripted); err != nil {
		return nil, err
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
		found, err := servers.Discover(ctx, servers.LocalBases(), wire.Options{Log: b.log})
		if err != nil && len(found) == 0 {
			return nil, fmt.Errorf("no --base-url, and no model server on this machine answers: %w", err)
		}
		if len(found) == 0 {
			return nil, errors.New("no --base-url, and no model server on this machine answers")
		}
		o.Bases = []string{found[0].Base}
		fmt.Fprintf(b.host.Err, "model server: %s, found on this machine", found[0].Base)
		for _, f := range found[1:] {
			fmt.Fprintf(b.host.Err, "; %s answers too, choose with --base-url", f.Base)
		}
		fmt.Fprintln(b.host.Err)
	}
	if b.Record != "" && b.Cassette == "" {
		f, err := os.OpenFile(b.Record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		b.later(f.Close)
		o.Record = wire.NewRecorder(f)
	}
	c, err := wire.New(o)
	if err == nil {
		b.raise = append(b.raise, c.SetConcurrency)
		b.loads = append(b.loads, c.Loads)
	}
	return c, err
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

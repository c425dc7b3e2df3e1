package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"hermes/internal/fakellm"
	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// Model is the model of a run and what belongs to it.
type Model struct {
	Name   string
	Policy policy.Policy
	Budget *policy.Spending
	Exact  *Exact        // nil: text
	Proofs []exact.Proof // of what was opened with exact tokens

	host    Host
	from    settings.Parts
	log     *slog.Logger
	bases   []string // the servers that were named; nil: one is looked for
	origins []string // of the run's own servers
	raise   []func(int)
	loads   []func() []wire.Load
	closers Closers
}

// NewModel has the budget and the prices, and asks no server yet: for commands that open
// models beside a run's own only, see [Model.Other].
func NewModel(h Host, s settings.Parts) (*Model, error) {
	m := &Model{host: h, from: s, log: h.Logger(), bases: s.BaseURL}
	var err error
	if s.Limits != (policy.Limits{}) {
		m.Budget, err = policy.NewBudget(s.Limits)
	}
	return m, err
}

// OpenModel asks the model server for the model before anything is spent. Close it.
func OpenModel(ctx context.Context, h Host, s settings.Parts) (*Model, error) {
	m, err := NewModel(h, s)
	if err == nil {
		err = m.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close ends the connections, and the embedded model.
func (m *Model) Close() error { return m.closers.Close() }

// Scripted reports whether the scripts of the rows are sent along.
func (m *Model) Scripted() bool { return m.from.SendScripts || m.from.Embedded }

// Price is what the run's own model costs; nil: the server says it, or it is unknown.
func (m *Model) Price() *policy.Price { return m.from.Prices[""] }

// SetConcurrency raises or lowers the bound on requests.
func (m *Model) SetConcurrency(n int) {
	for _, f := range m.raise {
		f(n)
	}
}

// Loads is what the model servers carry.
func (m *Model) Loads() (all []wire.Load) {
	for _, f := range m.loads {
		all = append(all, f()...)
	}
	return all
}

func (m *Model) open(ctx context.Context) error {
	var err error
	if m.from.Exact {
		if m.Exact, err = OpenExact(ctx, m.from.ExactFlags, ModelHub(m.host, m.from.Offline), templateNow(m.from.RunDir)); err != nil {
			return err
		}
	}
	if m.from.Embedded && m.from.Cassette == "" {
		if err := m.startScripted(ctx); err != nil {
			return err
		}
	}
	if err := m.from.CheckModel(); err != nil {
		return err
	}
	first, err := m.one(ctx, served{name: m.from.Model, bases: m.bases, own: true, rolls: true, price: m.Price(), budget: m.Budget})
	if err != nil {
		return err
	}
	if p := m.from.Prices[first.Info().Model]; p != nil && m.Price() != nil {
		return fmt.Errorf("--price names %s, which has a price already: that without a name", first.Info().Model)
	}
	list := []policy.Policy{first}
	for _, f := range m.from.Fallback {
		name, url, err := policy.SplitModel(f)
		if err != nil {
			return fmt.Errorf("--fallback %s: %w", f, err)
		}
		p, err := m.other(ctx, served{name: name, rolls: true, budget: m.Budget}, url)
		if err != nil {
			return fmt.Errorf("--fallback %s: %w", f, err)
		}
		list = append(list, p)
	}
	m.Name = first.Info().Model
	m.Policy, err = policy.NewFallback(list...)
	return err
}

// ModelHub is where model files are looked for; what is fetched is said on Err.
func ModelHub(h Host, offline bool) hfhub.Options {
	o := Hub(h.Env, offline)
	o.Log = func(line string) { fmt.Fprintln(h.Err, line) }
	return o
}

// startScripted runs the embedded model on a port of loopback.
func (m *Model) startScripted(ctx context.Context) error {
	o := fakellm.Options{Models: []string{settings.Scripted}}
	if m.Exact != nil && m.Exact.Tokenizer != nil {
		var err error
		if o.Tokenizer, err = FakeTokens(m.Exact.Tokenizer, fakellm.ChatML.End); err != nil {
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
	m.closers.Add(func() error { stop(); return running.Wait() })
	m.bases = []string{running.URL + "/v1"}
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

// Other opens a model beside the run's first one, for another task than rollouts: at url,
// or at the run's own servers.
func (m *Model) Other(ctx context.Context, name, url string, budget *policy.Spending) (policy.Policy, error) {
	return m.other(ctx, served{name: name, budget: budget}, url)
}

func (m *Model) other(ctx context.Context, s served, url string) (policy.Policy, error) {
	s.bases, s.own, s.price = m.bases, true, m.from.Prices[s.name]
	if url != "" {
		s.bases = []string{url}
		s.own = m.ours(s.bases)
	}
	p, err := m.one(ctx, s)
	if err == nil && s.price == nil && s.budget.InDollars() {
		fmt.Fprintf(m.host.Err, "hermes: %s has no --price %s=IN,OUT: a budget in dollars counts what it costs only where its server tells\n", s.name, s.name)
	}
	return p, err
}

// one opens one model: with exact tokens where it writes rollouts of an exact run.
func (m *Model) one(ctx context.Context, s served) (policy.Policy, error) {
	if m.Exact != nil && s.rolls {
		return m.exact(ctx, s)
	}
	return m.chat(ctx, s)
}

// chat opens one model in text mode.
func (m *Model) chat(ctx context.Context, s served) (policy.Policy, error) {
	w, err := m.wire(ctx, s)
	if err != nil {
		return nil, err
	}
	m.closers.Add(w.Close)
	o := chat.Options{Model: s.name, Stream: m.from.Stream, ByGroup: m.from.Affinity == "group", Budget: s.budget, Price: s.price}
	if s.rolls {
		if o.Calls, err = m.from.Unread(); err != nil {
			return nil, err
		}
		o.Extra, o.MaxTokens = json.RawMessage(m.from.ExtraBody), m.from.MaxTokens
		o.Routing = chat.Routing{Order: m.from.ProviderOrder, Only: m.from.ProviderOnly, Ignore: m.from.ProviderIgnore, Sort: m.from.ProviderSort,
			DataCollection: m.from.ProviderDataCollection, RequireParameters: m.from.RequireParameters}
	}
	m.known(w)
	if m.from.Cassette == "" {
		found, err := servers.Probe(ctx, w, s.name)
		if err != nil {
			return nil, err
		}
		o.Model = found.Model
		o.Context = found.Context
		o.Images = found.Images
		o.Profile = &found.Profile
		o.Blind = found.Blind
		if o.Price == nil {
			o.Price = m.from.Prices[found.Model]
		}
	}
	if m.from.Server != "" && m.from.Server != "auto" && s.own || m.from.Cassette != "" {
		server := m.from.Server
		if server == "auto" {
			server = ""
		}
		p, err := servers.Named(server)
		if err != nil {
			return nil, err
		}
		o.Profile = &p
	}
	m.follow(ctx, w, *o.Profile)
	o.Cache = chat.PromptCache(m.from.PromptCache)
	if o.Cache != "off" && !s.rolls {
		o.Cache = "auto"
	}
	return chat.New(w, o)
}

// known keeps the first model's servers as the run's own.
func (m *Model) known(w *wire.Client) {
	if m.origins == nil {
		for _, base := range w.Bases() {
			m.origins = append(m.origins, Origin(base))
		}
	}
}

// follow lets the requests follow the length of the queue of a server that tells it.
func (m *Model) follow(ctx context.Context, w *wire.Client, p servers.Profile) {
	if m.from.Watch && p.Metrics && w.Watch(ctx, time.Second) {
		m.log.Debug("requests follow the length of the server's queue", "server", w.Bases()[0])
	}
}

func (m *Model) wire(ctx context.Context, s served) (*wire.Client, error) {
	bases := s.bases
	o := wire.Options{Bases: bases, Concurrency: m.from.Requests, Retries: m.from.RequestRetries, Whole: m.from.RequestTimeout, Idle: m.from.IdleTimeout, Seed: uint64(m.from.Seed), Log: m.log}
	var err error // a server that was found and not named gets no key: anyone can listen at its port
	if o.Keys, o.KeyNames, err = m.keysFor(bases, s.own && len(bases) > 0 && !m.from.Embedded); err != nil {
		return nil, err
	}
	if m.from.RequestRetries == 0 {
		o.Retries = -1
	}
	switch {
	case m.from.Cassette != "":
		f, err := os.Open(m.from.Cassette)
		if err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
		defer f.Close()
		if o.Replay, err = wire.ReadCassette(m.from.Cassette, f); err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
	case len(bases) == 0:
		found, err := servers.Discover(ctx, servers.LocalBases(), wire.Options{Log: m.log})
		if err != nil && len(found) == 0 {
			return nil, fmt.Errorf("no --base-url, and no model server on this machine answers: %w", err)
		}
		if len(found) == 0 {
			return nil, errors.New("no --base-url, and no model server on this machine answers")
		}
		o.Bases = []string{found[0].Base}
		fmt.Fprintf(m.host.Err, "model server: %s, found on this machine", found[0].Base)
		for _, f := range found[1:] {
			fmt.Fprintf(m.host.Err, "; %s answers too, choose with --base-url", f.Base)
		}
		fmt.Fprintln(m.host.Err)
	}
	if m.from.Record != "" && m.from.Cassette == "" {
		f, err := os.OpenFile(m.from.Record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		m.closers.Add(f.Close)
		o.Record = wire.NewRecorder(f)
	}
	c, err := wire.New(o)
	if err == nil {
		m.raise = append(m.raise, c.SetConcurrency)
		m.loads = append(m.loads, c.Loads)
	}
	return c, err
}

package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hermes/internal/fakellm"
	"hermes/internal/settings"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/servers"
)

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

// Other opens a model beside the run's first one, for another task than rollouts: at url,
// or at the run's own servers.
func (m *Model) Other(ctx context.Context, name, url string, budget *policy.Spending) (policy.Policy, error) {
	return m.other(ctx, served{name: name, budget: budget}, url)
}

func (m *Model) other(ctx context.Context, s served, url string) (policy.Policy, error) {
	s.bases = m.bases
	s.own = true
	s.price = m.from.Prices[s.name]
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

// exact opens one model with exact tokens: template, tokenizer and parser are proved, then
// the server is asked for one token.
func (m *Model) exact(ctx context.Context, s served) (policy.Policy, error) {
	w, err := m.wire(ctx, s)
	if err != nil {
		return nil, err
	}
	m.closers.Add(w.Close)
	m.known(w)
	x := m.Exact
	if x.tools, err = likelyTools(ctx, m.host, m.from); err != nil {
		return nil, err
	}
	name, length, price := s.name, x.length, s.price
	if m.from.Cassette == "" {
		found, err := servers.Probe(ctx, w, name)
		if err != nil {
			return nil, err
		}
		name, length = found.Model, cmp.Or(found.Context, x.length)
		if price == nil {
			price = m.from.Prices[found.Model]
		}
		m.follow(ctx, w, found.Profile)
	}
	p, err := x.Policy(w, m.from, name, length, s.budget, price)
	if err != nil {
		return nil, err
	}
	if m.from.Cassette == "" {
		err = x.ask(ctx, p)
		if x.Form == "vllm" && servers.NoEndpoint(err) {
			x.Form = "vllm-completions" // a vLLM older than /inference/v1/generate, or one that keeps it closed
			fmt.Fprintf(m.host.Err, "POST /inference/v1/generate is not open (%v): asking POST /v1/completions\n", err)
			if p, err = x.Policy(w, m.from, name, length, s.budget, price); err == nil {
				err = x.ask(ctx, p)
			}
		}
		if servers.NoEndpoint(err) {
			return nil, fmt.Errorf("--exact: the server cannot be asked for tokens: %w; %s", err, servers.Endpoint(x.Form))
		}
		if err != nil {
			return nil, fmt.Errorf("--exact: the server cannot be asked for tokens: %w", err)
		}
	}
	if proved, ok := p.(interface{ Proof() exact.Proof }); ok {
		m.Proofs = append(m.Proofs, proved.Proof())
		fmt.Fprintf(m.host.Err, "exact tokens over %s: %s; log-probs are %s\n", x.Form, proved.Proof(), x.Probs())
	} else {
		fmt.Fprintf(m.host.Err, "exact tokens over chat: the server renders and tokenizes; log-probs are %s\n", x.Probs())
	}
	return p, nil
}

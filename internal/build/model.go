package build

import (
	"fmt"
	"log/slog"

	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/rollout/policy"
	"hermes/rollout/policy/exact"
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

// ModelHub is where model files are looked for; what is fetched is said on Err.
func ModelHub(h Host, offline bool) hfhub.Options {
	o := Hub(h.Env, offline)
	o.Log = func(line string) { fmt.Fprintln(h.Err, line) }
	return o
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

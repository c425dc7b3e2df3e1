// Package prom counts the events of a run as Prometheus metrics. [Metrics] is an
// event.Observer and an http.Handler; [Serve] answers on a loopback address only.
//
// The text format is written by hand: counters and two histograms need no client
// library. Observing costs a few additions under one lock. Everything is safe for
// concurrent use.
package prom

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"hermes/internal/guard"
	"hermes/rollout/event"
	"hermes/trajectory"
)

// Metrics counts. Make it with [New].
type Metrics struct {
	more     []func(io.Writer) error
	mu       sync.Mutex
	planned  int64
	flying   map[trajectory.Key]struct{}
	outcomes map[string]int64
	retries  map[string]int64
	tokens   map[string]int64
	turns    int64
	replayed int64
	cost     float64
	calls    map[callKey]int64
	states   map[string]int64 // of the calls that answers hold
	faults   map[string]int64 // of answers
	model    histogram
	tools    histogram
}

type callKey struct{ tool, result string }

// New returns metrics that are all zero. Known outcomes are present from the start, so
// that a rate over them is defined.
func New() *Metrics {
	m := &Metrics{
		flying: map[trajectory.Key]struct{}{}, outcomes: map[string]int64{}, retries: map[string]int64{},
		tokens: map[string]int64{"prompt": 0, "completion": 0, "reasoning": 0, "cached": 0},
		calls:  map[callKey]int64{},
		states: map[string]int64{}, faults: map[string]int64{},
		model: newHistogram(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
		tools: newHistogram(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300),
	}
	for _, o := range []trajectory.Outcome{trajectory.Answered, trajectory.Truncated, trajectory.Malformed, trajectory.Filtered, trajectory.Faulty,
		trajectory.Provider, trajectory.Sandbox, trajectory.Environment, trajectory.Internal} {
		m.outcomes[string(o)] = 0
	}
	for _, s := range []trajectory.CallState{trajectory.CallComplete, trajectory.CallRecovered, trajectory.CallAmbiguous, trajectory.CallTruncated, trajectory.CallMalformed} {
		m.states[s.String()] = 0
	}
	return m
}

// SetPlanned tells how many samples the run has in all.
func (m *Metrics) SetPlanned(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.planned = n
}

// Observe counts an event.
func (m *Metrics) Observe(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := e.(type) {
	case event.RolloutStarted:
		m.flying[e.Key] = struct{}{}
	case event.TurnEnded:
		m.turn(e)
	case event.CallEnded:
		result := "success"
		if e.Failed {
			result = "failure"
		}
		m.call(e.Call.Name, result)
		m.tools.observe(e.Took.Seconds())
	case event.RolloutCancelled:
		delete(m.flying, e.Key)
	case event.Retry:
		delete(m.flying, e.Key)
		m.retries[e.Cause]++
	case event.RolloutEnded:
		delete(m.flying, e.Key)
		if e.Record != nil {
			m.outcomes[string(e.Record.Outcome)]++
		}
	}
}

// maxTools bounds the series: models invent names of tools.
const maxTools = 500

func (m *Metrics) call(tool, result string) {
	k := callKey{tool, result}
	if _, known := m.calls[k]; !known && len(m.calls) >= maxTools {
		k.tool = "other"
	}
	m.calls[k]++
}

func (m *Metrics) turn(e event.TurnEnded) {
	m.turns++
	for _, c := range e.Message.Calls {
		m.states[c.State.String()]++
	}
	for _, f := range e.Faults {
		m.faults[f.Kind]++
	}
	if e.Replay {
		m.replayed++
		return
	}
	m.tokens["prompt"] += e.Usage.Prompt
	m.tokens["completion"] += e.Usage.Completion
	m.tokens["reasoning"] += e.Usage.Reasoning
	m.tokens["cached"] += e.Usage.Cached
	m.cost += e.Usage.Cost
	m.model.observe(e.Took.Seconds())
}

// Text is the page in the text exposition format, version 0.0.4.
func (m *Metrics) Text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var p page
	p.gauge("hermes_rollouts_planned", "Samples of the run.", float64(m.planned))
	p.gauge("hermes_rollouts_in_flight", "Samples being rolled out.", float64(len(m.flying)))
	p.counters("hermes_rollouts_total", "Finished samples by outcome.", "outcome", m.outcomes)
	p.counters("hermes_retries_total", "Attempts that failed and were followed by another one, by cause.", "cause", m.retries)
	p.counter("hermes_turns_total", "Model answers, replayed ones included.", float64(m.turns))
	p.counter("hermes_turns_replayed_total", "Model answers taken from the journal.", float64(m.replayed))
	p.counters("hermes_tokens_total", "Tokens of answers that were bought.", "kind", m.tokens)
	p.counter("hermes_cost_usd_total", "Cost as reported by the server or the price table, in dollars.", m.cost)
	p.calls("hermes_tool_calls_total", "Tool calls by tool and result.", m.calls)
	p.counters("hermes_calls_total", "Calls in the answers of models by state, those that were not run included.", "state", m.states)
	p.counters("hermes_faults_total", "Places of answers that could not be read, by kind.", "kind", m.faults)
	p.histogram("hermes_model_request_seconds", "Time of one model answer, retries included.", m.model)
	p.histogram("hermes_tool_call_seconds", "Time of one tool call.", m.tools)
	for _, write := range m.more {
		_ = write(&p) // a buffer takes everything
	}
	return p.Bytes()
}

// Also adds what somebody else writes in the same format to the page.
func (m *Metrics) Also(write func(io.Writer) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.more = append(m.more, write)
}

// ServeHTTP answers with the page.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = bytes.NewReader(m.Text()).WriteTo(w) // a scraper that went away is its own affair
}

// Listen opens a loopback address for [Serve]: HOST:PORT, :PORT or PORT. Any other host
// is refused, for the page asks for no token.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return guard.Listen(ctx, "metrics on", addr, "the page shows everything to whoever reaches it")
}

// Serve answers /metrics and /healthz on l until ctx ends, then closes l. It returns
// nil after a shutdown.
func Serve(ctx context.Context, l net.Listener, m *Metrics) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", m)
	if err := guard.Local(2*time.Second).On(ctx, l, mux).Wait(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

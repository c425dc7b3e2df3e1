// Package stats counts what a run came to: the books, rewards, tokens, tools, turns. All
// maps have a fixed set of keys, so that files of different runs share a schema.
//
// [Totals] is fed record by record and can be stored as JSON and go on later; the same
// records in the same order give the same figures. It is not safe for concurrent use.
package stats

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"hermes/trajectory"
)

// Book is where a sample ends.
type Book string

// The books.
const (
	Accepted Book = "accepted"
	Rejected Book = "rejected"
	Failed   Book = "failed"
)

// RejectedKinds and FailedKinds are the fixed keys of their books.
func RejectedKinds() []string {
	return []string{"no_reasoning", "malformed", "truncated", "low_reward", "filtered", "duplicate"}
}

// FailedKinds are the causes for which a sample can fail.
func FailedKinds() []string { return []string{"provider", "sandbox", "environment", "internal"} }

// CallStates are the states of calls, the fixed keys under calls.
func CallStates() []string {
	return []string{trajectory.CallComplete.String(), string(trajectory.CallRecovered), string(trajectory.CallAmbiguous), string(trajectory.CallTruncated), string(trajectory.CallMalformed)}
}

// Totals is what has been counted.
type Totals struct {
	Accepted  int64                           `json:"accepted"`
	Rejected  map[string]int64                `json:"rejected"`
	Failed    map[trajectory.Key]string       `json:"failed"` // in force, with their cause
	Attempts  int64                           `json:"attempts"`
	Rebought  int64                           `json:"rebought"`
	Scored    int64                           `json:"scored"`
	Sum       float64                         `json:"sum"`            // of rewards
	Square    float64                         `json:"square"`         // sum of squared distances from the running mean
	Huge      bool                            `json:"huge,omitempty"` // Sum and Square are in hugeUnit
	Usage     trajectory.Usage                `json:"usage"`
	Judge     *trajectory.Judged              `json:"judge,omitempty"` // the last one's name, the sum of the rest
	First     time.Time                       `json:"first"`
	Last      time.Time                       `json:"last"`
	Tools     map[string]trajectory.ToolCount `json:"tools"`
	Toolsets  map[string]int64                `json:"toolsets"`
	Turns     map[int]int64                   `json:"turns"` // how many samples had that many
	Reasoning int64                           `json:"reasoning"`
	Written   int64                           `json:"written"`            // tokens, by the samples that did not fail
	Took      float64                         `json:"took"`               // seconds of these samples together
	Causes    map[string]int64                `json:"causes"`             // of attempts and finals that failed
	Calls     map[string]int64                `json:"calls,omitempty"`    // by state, of all answers of the samples that did not fail
	Faults    map[string]int64                `json:"faults,omitempty"`   // by kind, of the same answers
	Verified  map[string]int64                `json:"verified,omitempty"` // scored samples by the box that was looked into
	Hacks     int64                           `json:"hacks,omitempty"`    // scored samples with a sign of a hack
}

// New returns empty totals for a run with these tools.
func New(tools []string) *Totals {
	t := &Totals{
		Rejected: map[string]int64{}, Failed: map[trajectory.Key]string{}, Tools: map[string]trajectory.ToolCount{},
		Toolsets: map[string]int64{}, Turns: map[int]int64{}, Causes: map[string]int64{},
	}
	for _, name := range tools {
		t.Tools[name] = trajectory.ToolCount{}
	}
	return t
}

// Attempt counts an attempt that was tried again: what it cost, and why it failed.
func (t *Totals) Attempt(r *trajectory.Record) {
	t.Attempts++
	t.Rebought += int64(r.Rebought)
	t.Usage = t.Usage.Add(r.Usage)
	if j := r.Judge; j != nil {
		if t.Judge == nil {
			t.Judge = &trajectory.Judged{}
		}
		*t.Judge = trajectory.Judged{Model: j.Model, Asked: t.Judge.Asked + j.Asked, Usage: t.Judge.Usage.Add(j.Usage)}
	}
	if t.First.IsZero() || r.Started.Before(t.First) {
		t.First = r.Started
	}
	if end := r.Started.Add(time.Duration(r.Seconds * float64(time.Second))); end.After(t.Last) {
		t.Last = end
	}
	if r.Outcome.Failure() {
		cause := r.Cause
		if cause == "" {
			cause = string(r.Outcome)
		}
		t.Causes[cause]++
	}
}

// Final counts the last record of a sample.
func (t *Totals) Final(r *trajectory.Record, b Book, sub string) {
	t.Attempt(r)
	delete(t.Failed, r.Key) // where damage took the reopen that came between
	switch b {
	case Failed:
		t.Failed[r.Key] = sub
		return
	case Rejected:
		t.Rejected[sub]++
	case Accepted:
		t.Accepted++
	}
	if r.Score != nil {
		t.judged(r)
		t.reward(r.Score.Reward)
	}
	for name, c := range r.ToolStats {
		s := t.Tools[name]
		t.Tools[name] = trajectory.ToolCount{Count: s.Count + c.Count, Success: s.Success + c.Success, Failure: s.Failure + c.Failure}
	}
	for _, name := range r.Toolsets {
		t.Toolsets[name]++
	}
	t.Turns[r.Trace.Turns()]++
	t.Written += r.Usage.Completion
	t.Took += r.Seconds
	if HasReasoning(r) {
		t.Reasoning++
	}
	t.verdicts(r.Trace)
}

// verdicts counts what was said of the answers of a trace, those that were asked again
// included.
func (t *Totals) verdicts(tr *trajectory.Trace) {
	if tr == nil {
		return
	}
	for i := range tr.Nodes {
		n := &tr.Nodes[i]
		if !n.Sampled() {
			continue
		}
		for _, c := range n.Delta.Message.Calls {
			count(&t.Calls, c.State.String())
		}
		for _, f := range n.Faults {
			count(&t.Faults, f.Kind)
		}
	}
}

// count adds one to a map that is nil as long as it is empty: totals that were stored lack it.
func count(m *map[string]int64, name string) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[name]++
}

// hugeUnit is what Sum is counted in once a reward is huge: a power of two, so that no
// digit changes. Squares and sums of rewards up to the largest number stay finite in it.
const (
	hugeReward = 0x1p480
	hugeUnit   = 0x1p600
)

func (t *Totals) reward(x float64) {
	if !t.Huge && math.Abs(x) >= hugeReward {
		t.Huge = true
		t.Sum, t.Square = t.Sum/hugeUnit, t.Square/hugeUnit/hugeUnit
	}
	x /= t.unit()
	before := t.mean()
	t.Scored++
	t.Sum += x
	t.Square += (x - before) * (x - t.mean())
}

func (t *Totals) unit() float64 {
	if t.Huge {
		return hugeUnit
	}
	return 1
}

// finite is x in the unit as a number, the largest one where rounding went beyond it.
func (t *Totals) finite(x float64) float64 {
	return max(-math.MaxFloat64, min(math.MaxFloat64, x*t.unit()))
}

// judged counts where a sample was scored, and whether there were signs of a hack.
func (t *Totals) judged(r *trajectory.Record) {
	if r.Verified != "" {
		count(&t.Verified, r.Verified)
	}
	if r.Score.Metrics["reward/hack"] > 0 {
		t.Hacks++
	}
}

// Reopen takes a failure back.
func (t *Totals) Reopen(k trajectory.Key) { delete(t.Failed, k) }

// mean is in the unit.
func (t *Totals) mean() float64 {
	if t.Scored == 0 {
		return 0
	}
	return t.Sum / float64(t.Scored)
}

// HasReasoning reports whether any answer of a model came with thinking.
func HasReasoning(r *trajectory.Record) bool {
	return slices.ContainsFunc(r.Trace.Visible(), func(m trajectory.Message) bool {
		return m.Role == trajectory.Assistant && (m.Reasoning != "" || hasThink(m.Content()))
	})
}

// Reward is the mean and the standard deviation (of the population) of the scored samples.
type Reward struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// Tokens counts tokens.
type Tokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Reasoning  int64 `json:"reasoning"`
	Cached     int64 `json:"cached"`
}

// Turns tells how many answers a sample took.
type Turns struct {
	Mean float64 `json:"mean"`
	P50  int     `json:"p50"`
	P95  int     `json:"p95"`
	Max  int     `json:"max"`
}

// Statistics is statistics.json.
type Statistics struct {
	Planned   int64                           `json:"planned"`
	Accepted  int64                           `json:"accepted"`
	Rejected  map[string]int64                `json:"rejected"`
	Failed    map[string]int64                `json:"failed"`
	Pending   int64                           `json:"pending"`
	Attempts  int64                           `json:"attempts"`
	Rebought  int64                           `json:"rebought"`
	Scored    int64                           `json:"scored"`
	Reward    *Reward                         `json:"reward"`
	Tokens    Tokens                          `json:"tokens"`
	CostUSD   *float64                        `json:"cost_usd"` // the judge's included
	Judge     *Judge                          `json:"judge,omitempty"`
	Seconds   float64                         `json:"seconds"`
	Tools     map[string]trajectory.ToolCount `json:"tools"`
	Toolsets  map[string]int64                `json:"toolsets"`
	Turns     Turns                           `json:"turns"`
	Reasoning int64                           `json:"with_reasoning"`
	Each      Each                            `json:"per_sample"`
	Causes    map[string]int64                `json:"causes"`
	Calls     map[string]int64                `json:"calls"`              // by state
	Faults    map[string]int64                `json:"faults"`             // of answers, by kind
	Verified  map[string]int64                `json:"verified,omitempty"` // scored samples by the box that was looked into
	Hacks     int64                           `json:"hacks,omitempty"`    // scored samples with a sign of a hack
}

// Each are means over the samples that did not fail by our fault.
type Each struct {
	Completion float64 `json:"completion_tokens"`
	Seconds    float64 `json:"seconds"`
}

// Judge is what the model that judged did, beside the rollouts' own tokens.
type Judge struct {
	Model   string   `json:"model"`
	Asked   int      `json:"asked"`
	Tokens  Tokens   `json:"tokens"`
	CostUSD *float64 `json:"cost_usd"`
}

// Statistics makes the figures for a run of planned samples.
func (t *Totals) Statistics(planned int64) Statistics {
	s := Statistics{
		Planned: planned, Accepted: t.Accepted, Rejected: map[string]int64{}, Failed: map[string]int64{},
		Attempts: t.Attempts, Rebought: t.Rebought, Scored: t.Scored,
		Tokens:  Tokens{t.Usage.Prompt, t.Usage.Completion, t.Usage.Reasoning, t.Usage.Cached},
		Seconds: math.Round(t.Last.Sub(t.First).Seconds()*1000) / 1000,
		Tools:   maps.Clone(t.Tools), Toolsets: maps.Clone(t.Toolsets), Turns: t.turns(), Reasoning: t.Reasoning, Causes: maps.Clone(t.Causes),
		Calls: map[string]int64{}, Faults: map[string]int64{},
		Verified: maps.Clone(t.Verified), Hacks: t.Hacks,
	}
	for _, state := range CallStates() {
		s.Calls[state] = 0
	}
	maps.Copy(s.Calls, t.Calls)
	maps.Copy(s.Faults, t.Faults)
	for _, k := range RejectedKinds() {
		s.Rejected[k] = 0
	}
	for _, k := range FailedKinds() {
		s.Failed[k] = 0
	}
	maps.Copy(s.Rejected, t.Rejected)
	for _, cause := range t.Failed {
		s.Failed[cause]++
	}
	if t.Scored > 0 {
		s.Reward = &Reward{Mean: t.finite(t.mean()), Std: t.finite(math.Sqrt(t.Square / float64(t.Scored)))}
	}
	if j := t.Judge; j != nil {
		s.Judge = &Judge{Model: j.Model, Asked: j.Asked, Tokens: Tokens{j.Usage.Prompt, j.Usage.Completion, j.Usage.Reasoning, j.Usage.Cached}}
		if j.Usage.CostKnown {
			s.Judge.CostUSD = &j.Usage.Cost
		}
	}
	if all := t.cost(); all.CostKnown {
		s.CostUSD = &all.Cost
	}
	if n := s.finished(); n > 0 {
		s.Each = Each{Completion: float64(t.Written) / float64(n), Seconds: t.Took / float64(n)}
	}
	s.Pending = planned - s.settled()
	return s
}

// cost is that of the rollouts and of their judge.
func (t *Totals) cost() trajectory.Usage {
	if t.Judge == nil {
		return t.Usage
	}
	return t.Usage.Add(t.Judge.Usage)
}

// finished counts the samples that did not fail.
func (s Statistics) finished() int64 {
	n := s.Accepted
	for _, v := range s.Rejected {
		n += v
	}
	return n
}

func (s Statistics) settled() int64 {
	n := s.finished()
	for _, v := range s.Failed {
		n += v
	}
	return n
}

// Balance checks that every planned sample is in exactly one book.
func (s Statistics) Balance() error {
	if s.Pending < 0 || s.Planned != s.settled()+s.Pending {
		return fmt.Errorf("the books do not balance: %d planned, %d settled, %d pending", s.Planned, s.settled(), s.Pending)
	}
	return nil
}

func (t *Totals) turns() Turns {
	var n, sum int64
	counts := slices.Sorted(maps.Keys(t.Turns))
	for _, c := range counts {
		n += t.Turns[c]
		sum += int64(c) * t.Turns[c]
	}
	if n == 0 {
		return Turns{}
	}
	at := func(share float64) int {
		need := int64(math.Ceil(share * float64(n)))
		for _, c := range counts {
			need -= t.Turns[c]
			if need <= 0 {
				return c
			}
		}
		return counts[len(counts)-1]
	}
	return Turns{Mean: float64(sum) / float64(n), P50: at(0.5), P95: at(0.95), Max: counts[len(counts)-1]}
}

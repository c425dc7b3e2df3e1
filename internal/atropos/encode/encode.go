// Package encode writes groups of scored samples in the form of Atropos' trajectory API. It
// is the only place where positions that no model sampled get a mask and a log-probability.
// Its functions are pure.
package encode

import (
	"encoding/json"
	"fmt"

	"hermes/rollout/sink"
	"hermes/trajectory"
)

// Ignored is the mask of a position that is not trained, NotSampled the log-probability
// of one that no model sampled: 1.0 is none, so trainers tell it apart.
const (
	Ignored    = -100
	NotSampled = 1.0
)

// ScoredDataGroup is one group in the form of the trajectory API. All 14 keys are always
// there; what a group does not have is null. Lists over sequences have one entry for each.
// In text mode tokens, masks and inference_logprobs hold an empty list for each sequence.
type ScoredDataGroup struct {
	Tokens            [][]int          `json:"tokens"`
	Masks             [][]int          `json:"masks"`
	Scores            []float64        `json:"scores"`
	Advantages        [][]float64      `json:"advantages"`
	RefLogprobs       [][]float64      `json:"ref_logprobs"`
	Messages          [][]any          `json:"messages"`
	GenerationParams  map[string]any   `json:"generation_params"`
	InferenceLogprobs [][]Logprob      `json:"inference_logprobs"`
	Overrides         []map[string]any `json:"overrides"`
	GroupOverrides    map[string]any   `json:"group_overrides"`
	Images            any              `json:"images"`
	EnvID             *int             `json:"env_id"`
	DistillTokenIDs   [][][]int        `json:"distill_token_ids"`
	DistillLogprobs   [][][]float64    `json:"distill_logprobs"`
}

// Logprob is a log-probability; NotSampled is written as 1.0.
type Logprob float64

// MarshalJSON writes the shortest text that reads back as the same 32-bit number.
func (p Logprob) MarshalJSON() ([]byte, error) {
	if p == NotSampled {
		return []byte("1.0"), nil
	}
	return json.Marshal(float32(p))
}

// Group makes the group of samples of one row with their scores. A sample of several
// sequences (forks) gives its last one; of the others, the number is returned.
func Group(recs []*trajectory.Record, scores []trajectory.Score, generation map[string]any) (g ScoredDataGroup, left int, err error) {
	if len(recs) != len(scores) {
		return g, 0, fmt.Errorf("%d samples but %d scores", len(recs), len(scores))
	}
	g = ScoredDataGroup{Tokens: [][]int{}, Masks: [][]int{}, Scores: []float64{}, Messages: [][]any{}, InferenceLogprobs: [][]Logprob{}}
	g.GenerationParams = generation
	g.GroupOverrides = map[string]any{"group_size": len(recs)}
	for i, r := range recs {
		if r.Trace == nil {
			return g, 0, fmt.Errorf("sample %d of row %q has no trace", r.Sample, r.Row)
		}
		tokens, masks, logprobs, n := sequence(r.Trace)
		left += n
		g.Tokens, g.Masks, g.InferenceLogprobs = append(g.Tokens, tokens), append(g.Masks, masks), append(g.InferenceLogprobs, logprobs)
		g.Scores = append(g.Scores, scores[i].Reward)
		g.Messages = append(g.Messages, sink.Chat(r.Trace.Visible()))
	}
	return g, left, nil
}

// Versions are the weights that sampled the tokens of the sequence that [Group] sends of a
// sample: From counts all its tokens. Empty when the model server told none.
func Versions(t *trajectory.Trace) (out []trajectory.Span) {
	var last *trajectory.Sequence
	for s := range t.Sequences() {
		last = &s
	}
	if last == nil {
		return nil
	}
	n := 0
	for _, id := range last.Nodes {
		d := t.Nodes[id].Delta
		for _, v := range d.Versions {
			if k := len(out); k == 0 || out[k-1].Version != v.Version {
				out = append(out, trajectory.Span{From: n + d.Given + v.From, Version: v.Version})
			}
		}
		n += len(d.Tokens)
	}
	return out
}

// sequence aligns the last path of a trace. Nodes that an earlier path has trained
// already are context.
func sequence(t *trajectory.Trace) (tokens, masks []int, logprobs []Logprob, left int) {
	tokens, masks, logprobs = []int{}, []int{}, []Logprob{}
	var last *trajectory.Sequence
	for s := range t.Sequences() {
		if last != nil {
			left++
		}
		last = &s
	}
	if last == nil || t.Mode != trajectory.ModeExact {
		return tokens, masks, logprobs, left
	}
	n := 0
	for _, id := range last.Nodes {
		n += len(t.Nodes[id].Delta.Tokens)
	}
	tokens, masks, logprobs = make([]int, 0, n), make([]int, 0, n), make([]Logprob, 0, n)
	for _, id := range last.Nodes {
		d := t.Nodes[id].Delta
		for i, token := range d.Tokens {
			tokens = append(tokens, int(token))
			if i < d.Given {
				masks, logprobs = append(masks, Ignored), append(logprobs, NotSampled)
			} else {
				masks, logprobs = append(masks, int(token)), append(logprobs, Logprob(d.LogProbs[i-d.Given]))
			}
		}
	}
	return tokens, masks, logprobs, left
}

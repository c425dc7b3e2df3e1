// Package encode writes groups of scored samples in the form of Atropos' trajectory API. It
// is the only place where positions that no model sampled, or whose log-probability is not
// known, get a mask and a log-probability.
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
	Tokens            [][]trajectory.Token `json:"tokens"`
	Masks             [][]trajectory.Token `json:"masks"`
	Scores            []float64            `json:"scores"`
	Advantages        [][]float64          `json:"advantages"`
	RefLogprobs       [][]float64          `json:"ref_logprobs"`
	Messages          [][]any              `json:"messages"`
	GenerationParams  map[string]any       `json:"generation_params"`
	InferenceLogprobs [][]Logprob          `json:"inference_logprobs"`
	Overrides         []map[string]any     `json:"overrides"`
	GroupOverrides    map[string]any       `json:"group_overrides"`
	Images            any                  `json:"images"`
	EnvID             *int                 `json:"env_id"`
	DistillTokenIDs   [][][]int            `json:"distill_token_ids"`
	DistillLogprobs   [][][]float64        `json:"distill_logprobs"`
}

// Logprob is a log-probability; NotSampled is written as 1.0.
type Logprob float32

// MarshalJSON writes the shortest text that reads back as the same 32-bit number.
func (p Logprob) MarshalJSON() ([]byte, error) {
	if p == NotSampled {
		return []byte("1.0"), nil
	}
	return json.Marshal(float32(p))
}

// Sequence is one sample as the trajectory API has it: its tokens, and for each a mask and a
// log-probability. Versions are the weights that sampled them, From counting all its tokens;
// empty when the model server reported none. Left is how many sequences of the sample (forks)
// are not in it.
type Sequence struct {
	Tokens, Masks []trajectory.Token
	Logprobs      []Logprob
	Versions      []trajectory.Span
	Sampled, Left int
}

// Group makes the group of samples of one row with their scores. A sample of several
// sequences (forks) gives its last one; of the others, the number is returned.
func Group(recs []*trajectory.Record, scores []trajectory.Score, generation map[string]any) (g ScoredDataGroup, left int, err error) {
	if len(recs) != len(scores) {
		return g, 0, fmt.Errorf("%d samples but %d scores", len(recs), len(scores))
	}
	g = ScoredDataGroup{Tokens: [][]trajectory.Token{}, Masks: [][]trajectory.Token{}, Scores: []float64{}, Messages: [][]any{}, InferenceLogprobs: [][]Logprob{}}
	g.GenerationParams = generation
	g.GroupOverrides = map[string]any{"group_size": len(recs)}
	for i, r := range recs {
		if r.Trace == nil {
			return g, 0, fmt.Errorf("sample %d of row %q has no trace", r.Sample, r.Row)
		}
		s := Sample(r.Trace)
		left += s.Left
		g.Tokens = append(g.Tokens, s.Tokens)
		g.Masks = append(g.Masks, s.Masks)
		g.InferenceLogprobs = append(g.InferenceLogprobs, s.Logprobs)
		g.Scores = append(g.Scores, scores[i].Reward)
		g.Messages = append(g.Messages, sink.Chat(r.Trace.Visible()))
	}
	return g, left, nil
}

// Room is where the lists of a group are made. Its memory is used again after
// [Room.Reset], which is why a group that is settled costs no garbage. The zero value is
// usable; it is not safe for concurrent use.
type Room struct {
	tokens, masks []trajectory.Token
	logprobs      []Logprob
}

// maxKept bounds what a room keeps of a large group, in tokens.
const maxKept = 1 << 20

// Reset takes back what the room has given.
func (r *Room) Reset() {
	if cap(r.tokens) > maxKept {
		*r = Room{}
	}
	r.tokens = r.tokens[:0]
	r.masks = r.masks[:0]
	r.logprobs = r.logprobs[:0]
}

// need makes room for n tokens. What was given before stays where it is.
func (r *Room) need(n int) {
	if cap(r.tokens)-len(r.tokens) >= n {
		return
	}
	n = max(n, 2*cap(r.tokens))
	*r = Room{make([]trajectory.Token, 0, n), make([]trajectory.Token, 0, n), make([]Logprob, 0, n)}
}

// Sample aligns the last path of a trace.
func Sample(t *trajectory.Trace) Sequence { return new(Room).Sample(t) }

// Sample aligns the last path of a trace, in lists that are the room's. Nodes that an
// earlier path has trained already are context.
func (r *Room) Sample(t *trajectory.Trace) (s Sequence) {
	s.Tokens = []trajectory.Token{}
	s.Masks = []trajectory.Token{}
	s.Logprobs = []Logprob{}
	var last *trajectory.Sequence
	for one := range t.Sequences() {
		if last != nil {
			s.Left++
		}
		last = &one
	}
	if last == nil || t.Mode != trajectory.ModeExact {
		return s
	}
	n := 0
	for _, id := range last.Nodes {
		n += len(t.Nodes[id].Delta.Tokens)
	}
	r.need(n)
	from := len(r.tokens)
	for _, id := range last.Nodes {
		d := &t.Nodes[id].Delta
		for _, v := range d.Versions {
			if k := len(s.Versions); k == 0 || s.Versions[k-1].Version != v.Version {
				s.Versions = append(s.Versions, trajectory.Span{From: len(r.tokens) - from + d.Given + v.From, Version: v.Version})
			}
		}
		r.tokens = append(r.tokens, d.Tokens...)
		for range d.Given {
			r.masks, r.logprobs = append(r.masks, Ignored), append(r.logprobs, NotSampled)
		}
		r.masks = append(r.masks, d.Tokens[d.Given:]...)
		for _, p := range d.LogProbs {
			r.logprobs = append(r.logprobs, Logprob(p))
		}
		for _, run := range d.Masked {
			for k := len(r.masks) - len(d.LogProbs) + run.From; k < len(r.masks)-len(d.LogProbs)+run.To; k++ {
				r.masks[k], r.logprobs[k] = Ignored, NotSampled
			}
		}
		s.Sampled += len(d.LogProbs)
	}
	s.Tokens = r.tokens[from:len(r.tokens):len(r.tokens)]
	s.Masks = r.masks[from:len(r.masks):len(r.masks)]
	s.Logprobs = r.logprobs[from:len(r.logprobs):len(r.logprobs)]
	return s
}

package group

import (
	"fmt"
	"math"
	"strconv"
)

// kind is what the innermost values of a field are.
type kind int

const (
	kInt kind = iota
	kID
	kFloat
	kObject
	kMessage
	kAny
)

// form is the type of a field: lists nested depth times around values of a kind.
type form struct {
	depth    int
	kind     kind
	required bool
}

func forms() [fields]form {
	return [fields]form{
		fTokens: {2, kID, true}, fMasks: {2, kInt, true}, fScores: {1, kFloat, true},
		fAdvantages: {2, kFloat, false}, fRefLogprobs: {2, kFloat, false}, fInferenceLogprobs: {2, kFloat, false},
		fMessages: {2, kMessage, false}, fGenerationParams: {0, kObject, false}, fOverrides: {1, kObject, false},
		fGroupOverrides: {0, kObject, false}, fImages: {0, kAny, false}, fEnvID: {0, kInt, false},
		fDistillTokenIDs: {3, kID, false}, fDistillLogprobs: {3, kFloat, false},
	}
}

// A body holds no more groups, and a group no more sequences, than this: an entry of three
// bytes costs many times that in memory.
const (
	maxGroups    = 1 << 14
	maxSequences = 1 << 20
)

func tooMany() error {
	return &Fault{Type: "value_error", Msg: fmt.Sprintf("a group has more than %d entries in a list", maxSequences)}
}

// shape is how long the lists of a field are.
type shape struct {
	outer int
	inner []int  // of each outer entry
	third uint64 // a hash of the lengths one further down, in order
}

func (h *shape) add(level, n int) {
	switch level {
	case 0:
		h.outer = n
	case 1:
		h.inner = append(h.inner, n)
	case 2:
		h.third = (h.third ^ uint64(n)) * 1099511628211
	}
}

// group reads one object.
func (s *scan) group() (Group, error) {
	var g Group
	if s.at() != '{' {
		if err := s.value(0); err != nil {
			return g, err
		}
		return g, &Fault{Type: "model_attributes_type", Msg: "Input should be a valid dictionary or object to extract fields from"}
	}
	var shapes [fields]shape
	known := forms()
	s.nonFinite = false
	for n := 0; ; n++ {
		more, err := s.next(n, '{', '}')
		if err != nil {
			return g, err
		}
		if !more {
			break
		}
		key, err := s.key()
		if err != nil {
			return g, err
		}
		f := field(key)
		if f == fields {
			before := s.nonFinite
			if err := s.value(0); err != nil {
				return g, err
			}
			s.nonFinite = before // unknown keys are dropped
			continue
		}
		shapes[f] = shape{}
		g.raw[f], err = s.field(known[f], &shapes[f])
		if err != nil {
			return g, below(err, names()[f])
		}
	}
	for f, form := range known {
		if form.required && g.raw[f] == nil {
			return g, &Fault{Type: "missing", Loc: []any{names()[f]}, Msg: "Field required"}
		}
	}
	g.NonFinite = s.nonFinite
	g.Sequences = shapes[fTokens].outer
	for _, n := range shapes[fTokens].inner {
		g.Tokens += n
	}
	if raw := g.raw[fEnvID]; raw != nil {
		g.HasEnv = true
		var err error
		g.Env, err = strconv.ParseInt(string(raw), 10, 64)
		if err != nil { // beyond every environment
			g.Env = math.MaxInt64
			if raw[0] == '-' {
				g.Env = math.MinInt64
			}
		}
	}
	if s.rules.Types {
		return g, nil
	}
	return g, aligned(&shapes, g.Sequences)
}

// field reads the value of a field and returns its bytes, nil for null.
func (s *scan) field(f form, h *shape) ([]byte, error) {
	from := s.i
	if !f.required && s.word("null") {
		return nil, nil
	}
	st, err := s.typed(f.depth, f.kind, h, 0)
	if err != nil {
		return nil, err
	}
	if st == other {
		s.i, *h = from, shape{}
		return s.slow(f, h)
	}
	return s.b[from:s.i], nil
}

// typed reads lists nested depth times around values of a kind.
func (s *scan) typed(depth int, k kind, h *shape, level int) (state, error) {
	if depth == 0 {
		return s.single(k)
	}
	if s.at() != '[' {
		return other, nil
	}
	if depth == 1 && k <= kFloat {
		return s.numbers(k, h, level)
	}
	for n := 0; ; n++ {
		more, err := s.next(n, '[', ']')
		if err != nil {
			return fine, err
		}
		if !more {
			h.add(level, n)
			return fine, nil
		}
		if level == 0 && n == maxSequences {
			return fine, tooMany()
		}
		if st, err := s.typed(depth-1, k, h, level+1); st != fine || err != nil {
			return st, below(err, n)
		}
	}
}

func (s *scan) numbers(k kind, h *shape, level int) (st state, err error) {
	s.i++
	var n int
	if k == kFloat {
		n, st, err = s.floats()
	} else {
		n, st = s.ints(k == kID && !s.rules.Types)
	}
	h.add(level, n)
	return st, err
}

// single reads one value of a kind.
func (s *scan) single(k kind) (state, error) {
	switch k {
	case kAny:
		return fine, s.value(0)
	case kObject, kMessage:
		if s.at() != '{' {
			return other, nil
		}
		if k == kMessage {
			return s.message()
		}
		return fine, s.value(0)
	}
	from := s.i
	if c := s.at(); c != '-' && c-'0' > 9 {
		return other, nil
	}
	if err := s.number(); err != nil {
		return fine, err
	}
	for _, c := range s.b[from:s.i] {
		if c != '-' && c-'0' > 9 {
			return other, nil
		}
	}
	return fine, nil
}

// message reads an object that must have a role and a content.
func (s *scan) message() (state, error) {
	role, content := false, false
	for n := 0; ; n++ {
		more, err := s.next(n, '{', '}')
		if err != nil {
			return fine, err
		}
		if !more {
			break
		}
		key, err := s.key()
		if err != nil {
			return fine, err
		}
		role, content = role || string(key) == "role", content || string(key) == "content"
		if err := s.value(1); err != nil {
			return fine, err
		}
	}
	if !role || !content {
		return fine, &Fault{Type: "value_error", Msg: "Value error, Message must have 'role' and 'content' fields"}
	}
	return fine, nil
}

// below puts a step in front of where a fault is.
func below(err error, step any) error {
	if f, ok := err.(*Fault); ok && f.Type != "json_invalid" {
		f.Loc = append([]any{step}, f.Loc...)
	}
	return err
}

// aligned demands what a trainer needs: as many entries as sequences, and as many
// positions as tokens where positions are looked at together. A list that is empty is
// one that is not used.
func aligned(shapes *[fields]shape, sequences int) error {
	tokens := &shapes[fTokens]
	fault := func(f int, format string, args ...any) error {
		return &Fault{Type: "value_error", Loc: []any{names()[f]}, Msg: fmt.Sprintf(format, args...)}
	}
	if sequences == 0 {
		return fault(fTokens, "the group has no sequences; it would stay in the queue for ever")
	}
	for i, n := range tokens.inner {
		if n == 0 {
			return fault(fTokens, "sequence %d has no tokens; send sequences with token ids (a policy that gives text alone cannot be trained from)", i)
		}
	}
	known := forms()
	for f := range shapes {
		h := &shapes[f]
		if known[f].depth == 0 || h.outer == 0 && !known[f].required {
			continue
		}
		if h.outer != sequences {
			return fault(f, "%d entries for %d sequences of tokens; send one for each", h.outer, sequences)
		}
		slack := 0
		switch f {
		case fMasks, fInferenceLogprobs, fRefLogprobs:
		case fDistillTokenIDs, fDistillLogprobs:
			slack = 1
		default:
			continue
		}
		for i, n := range h.inner {
			if want := tokens.inner[i]; n > want || n < want-slack {
				return fault(f, "sequence %d has %d positions but %d tokens", i, n, want)
			}
		}
	}
	ids, logprobs := &shapes[fDistillTokenIDs], &shapes[fDistillLogprobs]
	if ids.outer > 0 && logprobs.outer > 0 && ids.third != logprobs.third {
		return fault(fDistillLogprobs, "its lists are not as long as those of distill_token_ids")
	}
	return nil
}

// Package group reads groups of scored samples as Atropos' trajectory API sends them
// (type ScoredData) without building values of them: numbers are validated where they
// lie, and what is kept of a group is which bytes belong to which field.
//
// The readers are pure functions over the body they are given. A [Group] refers to that
// body: it is good for as long as the body is not changed.
package group

import (
	"fmt"
	"strings"
)

// Rules say how much is demanded of a group. The zero value demands what training needs:
// lists that align with the tokens, ids in range, finite numbers.
type Rules struct {
	// Types demands no more than Atropos' own server does: the types alone. Numbers that
	// are not finite are let through and marked.
	Types bool
}

// Fields of a group in the order of the canonical form.
const (
	fTokens = iota
	fMasks
	fScores
	fAdvantages
	fRefLogprobs
	fMessages
	fGenerationParams
	fInferenceLogprobs
	fOverrides
	fGroupOverrides
	fImages
	fEnvID
	fDistillTokenIDs
	fDistillLogprobs
	fields
)

// names are the keys of the fields.
func names() [fields]string {
	return [fields]string{"tokens", "masks", "scores", "advantages", "ref_logprobs", "messages", "generation_params",
		"inference_logprobs", "overrides", "group_overrides", "images", "env_id", "distill_token_ids", "distill_logprobs"}
}

// field is the number of the field with a key; fields for an unknown key.
func field(key []byte) int {
	switch string(key) {
	case "tokens":
		return fTokens
	case "masks":
		return fMasks
	case "scores":
		return fScores
	case "advantages":
		return fAdvantages
	case "ref_logprobs":
		return fRefLogprobs
	case "messages":
		return fMessages
	case "generation_params":
		return fGenerationParams
	case "inference_logprobs":
		return fInferenceLogprobs
	case "overrides":
		return fOverrides
	case "group_overrides":
		return fGroupOverrides
	case "images":
		return fImages
	case "env_id":
		return fEnvID
	case "distill_token_ids":
		return fDistillTokenIDs
	case "distill_logprobs":
		return fDistillLogprobs
	}
	return fields
}

// Group is one validated group.
type Group struct {
	Sequences int   // entries of tokens
	Tokens    int   // ids in all sequences
	Env       int64 // env_id; means nothing unless HasEnv
	HasEnv    bool
	NonFinite bool // NaN or an infinity is in it, which JSON cannot say; only under Rules.Types

	raw [fields][]byte // nil: absent
}

// Fault says what is wrong with a body, in the words of Atropos' server where it has any.
type Fault struct {
	Type string // json_invalid, missing, list_type, int_parsing, …; value_error for our own demands
	Loc  []any  // path below the body: keys and indices; for json_invalid the byte offset
	Msg  string
	// Crash marks what Atropos' server answers with 500 instead of 422.
	Crash bool
}

func (f *Fault) Error() string {
	if f.Type == "json_invalid" {
		return fmt.Sprintf("JSON, byte %v: %s", f.Loc[len(f.Loc)-1], f.Msg)
	}
	var at strings.Builder
	for i, l := range f.Loc {
		if i > 0 {
			at.WriteByte('.')
		}
		fmt.Fprint(&at, l)
	}
	return at.String() + ": " + f.Msg
}

// Parts appends the canonical form in parts, which lie in the group's body where they
// can: all 14 keys in Atropos' order, null for what the group does not have, unknown keys
// gone, the numbers as they were sent.
func (g *Group) Parts(parts [][]byte) [][]byte {
	joints := make([]byte, 0, 512) // what is between the values: 230 bytes and nulls
	for i, name := range names() {
		from := len(joints)
		joints = append(joints, ",\""...)
		if i == 0 {
			joints[from] = '{'
		}
		joints = append(joints, name...)
		joints = append(joints, "\":"...)
		if g.raw[i] == nil {
			joints = append(joints, "null"...)
			parts = append(parts, joints[from:])
		} else {
			parts = append(parts, joints[from:], g.raw[i])
		}
	}
	return append(parts, []byte{'}'})
}

// Read reads the body of /scored_data.
func Read(body []byte, r Rules) (Group, error) {
	s := scan{b: body, rules: r}
	return s.one()
}

func (s *scan) one() (Group, error) {
	s.space()
	if s.i == len(s.b) {
		return Group{}, s.bad("a value is missing")
	}
	g, err := s.group()
	if err != nil {
		return Group{}, err
	}
	return g, s.end()
}

// ReadList reads the body of /scored_data_list: all its groups, or the first fault.
func ReadList(body []byte, r Rules) ([]Group, error) {
	s := scan{b: body, rules: r}
	s.space()
	if s.i == len(body) {
		return nil, s.bad("a value is missing")
	}
	list := []Group{}
	if s.b[s.i] != '[' {
		if err := s.value(0); err != nil {
			return nil, err
		}
		return nil, &Fault{Type: "list_type", Msg: "Input should be a valid list"}
	}
	for n := 0; ; n++ {
		more, err := s.next(n, '[', ']')
		if err != nil {
			return nil, err
		}
		if !more {
			return list, s.end()
		}
		if n == maxGroups {
			return nil, &Fault{Type: "value_error", Msg: fmt.Sprintf("the list has more than %d groups; send them in several", maxGroups)}
		}
		g, err := s.group()
		if f, ok := err.(*Fault); ok && f.Type != "json_invalid" {
			f.Loc = append([]any{n}, f.Loc...)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
}

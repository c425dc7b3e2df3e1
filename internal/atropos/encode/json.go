package encode

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"hermes/trajectory"
)

// AppendJSON appends the group as json.Marshal writes it, to the byte. Lists of numbers,
// which are nearly all of a group, are written without reflection: a tenth of the cost.
func (g *ScoredDataGroup) AppendJSON(b []byte) (_ []byte, err error) {
	rest := func(b []byte, key string, v any) []byte {
		b = append(append(append(b, `,"`...), key...), `":`...)
		raw, e := json.Marshal(v)
		if err == nil {
			err = e
		}
		return append(b, raw...)
	}
	b = appendLists(append(b, `{"tokens":`...), g.Tokens, trajectory.AppendDecimal)
	b = appendLists(append(b, `,"masks":`...), g.Masks, appendMasks)
	b = rest(b, "scores", g.Scores)
	b = rest(b, "advantages", g.Advantages)
	b = rest(b, "ref_logprobs", g.RefLogprobs)
	b = rest(b, "messages", g.Messages)
	b = rest(b, "generation_params", g.GenerationParams)
	for _, list := range g.InferenceLogprobs {
		for _, p := range list {
			if v := float64(p); v-v != 0 && err == nil { // NaN or an infinity: let the library say so
				_, err = json.Marshal(v)
			}
		}
	}
	b = appendLists(append(b, `,"inference_logprobs":`...), g.InferenceLogprobs, appendLogprobs)
	b = rest(b, "overrides", g.Overrides)
	b = rest(b, "group_overrides", g.GroupOverrides)
	b = rest(b, "images", g.Images)
	b = rest(b, "env_id", g.EnvID)
	b = rest(b, "distill_token_ids", g.DistillTokenIDs)
	b = rest(b, "distill_logprobs", g.DistillLogprobs)
	return append(b, '}'), err
}

// Room is about the length of AppendJSON's result, in bytes.
func (g *ScoredDataGroup) Room() int {
	n := 4 << 10
	for _, list := range g.Masks {
		for _, m := range list {
			n += 16
			if m != Ignored { // an id of six digits, a mask of -100 and 1.0, commas; or the id twice and a log-prob of ten
				n += 9
			}
		}
	}
	return n
}

func appendLists[T any](b []byte, lists [][]T, items func([]byte, []T) []byte) []byte {
	if lists == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, list := range lists {
		if i > 0 {
			b = append(b, ',')
		}
		if list == nil {
			b = append(b, "null"...)
			continue
		}
		b = append(items(append(b, '['), list), ']')
	}
	return append(b, ']')
}

// What the context of a sample consists of, many times over: most of a group is copied.
const (
	manyIgnored    = "-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,"
	manyNotSampled = "1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,"
)

// appendMasks writes masks by runs: those of the context, then those of an answer.
func appendMasks(b []byte, list []trajectory.Token) []byte {
	for len(list) > 0 {
		n := run(list, Ignored)
		b = repeat(b, manyIgnored, len("-100,"), n)
		if n == len(list) {
			return b[:len(b)-1]
		}
		list = list[n:]
		n = slices.Index(list, Ignored)
		if n < 0 {
			return trajectory.AppendDecimal(b, list)
		}
		b = append(trajectory.AppendDecimal(b, list[:n]), ',')
		list = list[n:]
	}
	return b
}

func appendLogprobs(b []byte, list []Logprob) []byte {
	for len(list) > 0 {
		n := run(list, NotSampled)
		b = repeat(b, manyNotSampled, len("1.0,"), n)
		if n == len(list) {
			return b[:len(b)-1]
		}
		b = appendLogprob(b, list[n])
		if n+1 < len(list) {
			b = append(b, ',')
		}
		list = list[n+1:]
	}
	return b
}

// run is how many times list begins with v.
func run[T comparable](list []T, v T) int {
	for i, x := range list {
		if x != v {
			return i
		}
	}
	return len(list)
}

// repeat appends the first size bytes of many, which repeats them, n times.
func repeat(b []byte, many string, size, n int) []byte {
	for n *= size; n > 0; {
		k := min(n, len(many))
		b = append(b, many[:k]...)
		n -= k
	}
	return b
}

// appendLogprob writes the number as encoding/json writes a float32.
func appendLogprob(b []byte, p Logprob) []byte {
	if p == NotSampled {
		return append(b, "1.0"...)
	}
	v := float64(p)
	form := byte('f')
	if a := float32(math.Abs(v)); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	b = strconv.AppendFloat(b, v, form, -1, 32)
	if n := len(b); form == 'e' && n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 is written e-9
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

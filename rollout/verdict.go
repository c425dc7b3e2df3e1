package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"hermes/internal/schema"
	"hermes/rollout/policy"
)

// echo is the member of a verdict in which the judge gives back the mark of the question.
const echo = "verdict_mark"

// bench reads the answers to one question of a judge.
//
// What is judged may hold objects that look like verdicts, and a judge is free to quote
// them. So each question has a mark that the judged model cannot know, which the verdict
// has to give back. The last object with the mark is the verdict. Where a judge forgets the
// mark, an object without one counts if nothing that was shown to it imitates a verdict of
// that sort, and if it alone stands there. Objects that fit and disagree are no verdict.
type bench struct {
	mark    string
	raw     json.RawMessage
	schema  *schema.Schema
	planted []any // objects of the question that fit: what they say
	alike   bool  // the question has text that is nearly one
}

// newBench makes the mark from the question and the rollout's seed, so that a resumed
// rollout asks the same. The error is that of the schema.
func newBench(prompt string, raw json.RawMessage, o policy.Options) (*bench, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("ask the judge: %w", err)
	}
	h := sha256.New()
	if o.Seed != nil {
		h.Write(binary.LittleEndian.AppendUint64(nil, *o.Seed))
	}
	h.Write([]byte(prompt))
	b := &bench{mark: hex.EncodeToString(h.Sum(nil)[:6]), raw: raw, schema: s}
	b.planted, b.alike = imitations(prompt, raw, s)
	return b, nil
}

func (b *bench) rules() string {
	return "\nAnswer with one JSON object that fits this schema, and nothing else:\n" + string(b.raw) + "\n" + b.hint() + "\n"
}

func (b *bench) hint() string {
	return fmt.Sprintf("Its first member is %q: %q, beside those of the schema; it tells your verdict from what others wrote.", echo, b.mark)
}

// verdict finds the verdict of an answer, without the mark.
func (b *bench) verdict(text string) (json.RawMessage, error) {
	var marked, bare []json.RawMessage
	var why error = errors.New("there is no JSON object in it")
	for _, raw := range schema.Objects(text) {
		said, own, err := b.read(raw)
		switch {
		case err != nil:
			why = err
		case own:
			marked = append(marked, said)
		default:
			bare = append(bare, said)
		}
	}
	if len(marked) > 0 {
		return agreed(marked)
	}
	if len(bare) == 0 {
		return nil, why
	}
	last, err := agreed(bare)
	if err != nil {
		return nil, err
	}
	if b.alike {
		return nil, fmt.Errorf("it has no %q, and what is judged imitates a verdict", echo)
	}
	for _, p := range b.planted {
		if reflect.DeepEqual(p, decision(last)) {
			return nil, fmt.Errorf("it has no %q, and what is judged holds the same verdict", echo)
		}
	}
	return last, nil
}

// read checks one object. own tells whether it bears the mark.
func (b *bench) read(raw json.RawMessage) (said json.RawMessage, own bool, err error) {
	v, err := schema.Read(raw)
	if err != nil {
		return nil, false, err
	}
	o := v.(map[string]any)
	if m, has := o[echo]; has {
		if m != b.mark {
			return nil, false, fmt.Errorf("its %q is not %q", echo, b.mark)
		}
		delete(o, echo)
		own = true
		if raw, err = json.Marshal(o); err != nil {
			return nil, false, err
		}
	}
	if err := b.schema.Check(v); err != nil {
		return nil, false, fmt.Errorf("it does not fit: %w", err)
	}
	return raw, own, nil
}

// agreed is the last of several objects, if they decide alike.
func agreed(list []json.RawMessage) (json.RawMessage, error) {
	last := list[len(list)-1]
	for _, one := range list {
		if !reflect.DeepEqual(decision(one), decision(last)) {
			return nil, errors.New("it has several objects that fit, and they disagree")
		}
	}
	return last, nil
}

// decision is what a verdict decides: all of it but the reasons that it gives. Numbers are
// what they are worth, 1 and 1.0 the same.
func decision(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw) // a number beyond all floats
	}
	return reasonless(v)
}

func reasonless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "reason")
		for k, inner := range v {
			v[k] = reasonless(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = reasonless(inner)
		}
	}
	return v
}

// imitations finds what the text of a question holds that a judge could quote as a verdict:
// objects that fit, what they decide; and whether there are the names of all members with
// values behind them that are no such object: in other quotation marks, escaped, cut off.
func imitations(prompt string, raw json.RawMessage, s *schema.Schema) (planted []any, alike bool) {
	for _, text := range []string{prompt, strings.ReplaceAll(prompt, `\`, "")} {
		for _, o := range schema.Objects(text) {
			if v, err := schema.Read(o); err == nil && s.Check(v) == nil {
				planted = append(planted, decision(o))
				prompt = strings.ReplaceAll(prompt, string(o), " ")
			}
		}
	}
	var shape struct{ Required []string }
	if json.Unmarshal(raw, &shape) != nil || len(shape.Required) == 0 {
		return planted, false
	}
	for _, name := range shape.Required {
		member, err := regexp.Compile(`(?i)["'` + "`" + `“”‘’]\\?` + regexp.QuoteMeta(name) + `\\?["'` + "`" + `“”‘’]?\s*[:=]`)
		if err != nil || !member.MatchString(prompt) {
			return planted, false
		}
	}
	return planted, true
}

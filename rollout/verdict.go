package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"hermes/internal/schema"
	"hermes/rollout/policy"
)

// echo is the member of a verdict in which the judge gives back the mark of the question.
const echo = "verdict_mark"

// verdictReader reads the answers to one question of a judge.
//
// What is judged may hold objects that look like verdicts, and a judge is free to quote
// them. So each question has a mark that the judged model cannot know, which the verdict
// has to give back. The last object with the mark is the verdict, wherever it is in the
// answer. Where a judge forgets the mark, an object without one counts if it ends the
// answer, and if nothing that was shown to the judge imitates a verdict of that sort.
// Objects that fit and disagree are no verdict.
type verdictReader struct {
	mark    string
	raw     json.RawMessage
	schema  *schema.Schema
	planted []any // objects of the question that fit: what they say
	alike   bool  // the question has text that is nearly one
}

// newVerdictReader makes the mark from the question and the rollout's seed, so that a resumed
// rollout asks the same. The error is that of the schema.
func newVerdictReader(prompt string, raw json.RawMessage, o policy.Options) (*verdictReader, error) {
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
	b := &verdictReader{mark: hex.EncodeToString(h.Sum(nil)[:6]), raw: raw, schema: s}
	b.planted, b.alike = imitations(prompt, raw, s)
	return b, nil
}

func (b *verdictReader) rules() string {
	return "\nAnswer with one JSON object that fits this schema, and nothing else:\n" + string(b.raw) + "\n" + b.hint() + "\n"
}

func (b *verdictReader) hint() string {
	return fmt.Sprintf("Its first member is %q: %q, beside those of the schema; it tells your verdict from what others wrote.", echo, b.mark)
}

// verdict finds the verdict of an answer, without the mark. The error tells the judge what
// is wrong with it.
func (b *verdictReader) verdict(text string) (json.RawMessage, error) {
	var marked, bare []json.RawMessage
	var why error = errors.New("there is no JSON object in it that can be read")
	var behindMarked, behindBare int // where the last of each ends
	end, open := 0, 0                // open: braces that the text before an object opens and does not close
	for _, raw := range schema.Objects(text) {
		start := end + strings.Index(text[end:], string(raw))
		open = openBraces(open, text[end:start])
		end = start + len(raw)
		said, own, err := b.read(raw)
		switch {
		case err != nil:
			why = err
		case own:
			marked, behindMarked = append(marked, said), end
		case open > 0:
			why = errors.New("the object that fits is inside another one that cannot be read")
		default:
			bare, behindBare = append(bare, said), end
		}
	}
	switch {
	case len(marked) > 0 && echoed.MatchString(text[behindMarked:]):
		return nil, fmt.Errorf("behind the verdict is another object with %q, which does not fit or is cut off", echo)
	case len(marked) > 0:
		return agreed(marked)
	case len(bare) == 0:
		return nil, why
	case echoed.MatchString(text):
		return nil, fmt.Errorf("the object with %q is no verdict: %w", echo, why)
	case strings.ContainsFunc(text[behindBare:], speaks):
		return nil, fmt.Errorf("it has no %q, and its object that fits is not the end of the answer", echo)
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

// echoed finds the member for the mark, in whatever quotes: a judge that wrote it meant that
// object, and no other one, as its verdict.
var echoed = regexp.MustCompile("(?i)" + echo + `\\?["'` + "`" + `“”‘’]*\s*[:=]`)

// speaks tells whether a sign behind an object says anything: a word, or the beginning of
// another object. White space, punctuation and the end of a code fence do not.
func speaks(r rune) bool {
	return r == '{' || r == '[' || r != '`' && r != '~' && !unicode.IsSpace(r) && !unicode.IsPunct(r)
}

// openBraces is how many braces are open behind a text, open of them from before it.
func openBraces(open int, text string) int {
	for _, r := range text {
		switch {
		case r == '{':
			open++
		case r == '}' && open > 0:
			open--
		}
	}
	return open
}

// read checks one object. own tells whether it bears the mark.
func (b *verdictReader) read(raw json.RawMessage) (said json.RawMessage, own bool, err error) {
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
		raw, err = json.Marshal(o)
		if err != nil {
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
// values behind them that are no such object: in other quotation marks or without any, escaped, cut off.
func imitations(prompt string, raw json.RawMessage, s *schema.Schema) (planted []any, alike bool) {
	prompt = html.UnescapeString(prompt)
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
		member, err := regexp.Compile(`(?i)(?:["'` + "`" + `“”‘’]\\?|[{,]\s*)` + regexp.QuoteMeta(name) + `\\?["'` + "`" + `“”‘’]?\s*[:=]`)
		if err != nil || !member.MatchString(prompt) {
			return planted, false
		}
	}
	return planted, true
}

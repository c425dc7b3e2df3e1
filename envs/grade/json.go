package grade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"hermes/datasets"
	"hermes/envs/grade/written"
	"hermes/internal/late"
)

var fence = late.Regexp("(?s)```(?:json|JSON)?[ \t]*\r?\n(.*?)```")

// maxJSON bounds the JSON that is read of an answer.
const maxJSON = 4 << 20

// jsonIn finds the JSON of an answer: the whole, the last code fence that holds some, or the
// last object or list in the text. Where an object (a list) is wanted, one of them goes
// before what comes later, such as the [1] of a remark.
func jsonIn(text string, wanted any) (any, error) {
	if len(text) > maxJSON {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxJSON)
	}
	v, err := readJSON([]byte(text))
	if err == nil || errors.Is(err, errTwice) {
		return v, err
	}
	var last any
	found, fits := false, false
	take := func(v any) {
		_, isList := v.([]any)
		_, isObject := v.(map[string]any)
		_, list := wanted.([]any)
		_, object := wanted.(map[string]any)
		if like := list && isList || object && isObject; like || !fits {
			last = v
			found = true
			fits = like
		}
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		v, err := readJSON([]byte(m[1]))
		if errors.Is(err, errTwice) {
			return nil, err
		}
		if err == nil {
			take(v)
		}
	}
	if found {
		return last, nil
	}
	var before any
	for i, end, tries := 0, -1, 0; tries < 1000; tries++ {
		at := strings.IndexAny(text[i:], "{[")
		if at < 0 {
			break
		}
		i += at
		d := json.NewDecoder(strings.NewReader(text[i:]))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			i++
			continue
		}
		size := int(d.InputOffset())
		if written.Denied(text[:i]) || written.DeniedBehind(text[i+size:]) {
			i += size
			continue
		}
		if doubled([]byte(text[i : i+size])) {
			return nil, errTwice
		}
		if end >= 0 && alternatives.MatchString(text[end:i]) && !reflect.DeepEqual(v, before) && like(v, before) {
			return nil, fmt.Errorf("several JSON values side by side")
		}
		take(v)
		before = v
		i += size
		end = i
	}
	if !found {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	return last, nil
}

// alternatives is what comes between two values of which neither is the answer.
var alternatives = late.Regexp(`(?i)^[\s,;]*(?:\bor\b(?:\s+(?:maybe|perhaps|even|else))?)?[\s,;]*$`)

func like(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// errTwice: readers disagree about such an object.
var errTwice = errors.New("an object of the JSON has a key twice")

// doubled tells whether an object within a JSON value has a key twice.
func doubled(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	type level struct {
		keys  map[string]bool // nil: a list
		value bool            // a value comes next, no key
	}
	var open []level
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if t == json.Delim('}') || t == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open) - 1; n >= 0 && open[n].keys != nil {
			if key, ok := t.(string); ok && !open[n].value {
				if open[n].keys[key] {
					return true
				}
				open[n].keys[key], open[n].value = true, true
				continue
			}
			open[n].value = false
		}
		switch t {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

func readJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON")
	}
	if doubled(raw) {
		return nil, errTwice
	}
	return v, nil
}

// jsonEqual compares JSON values: numbers by value, objects whatever the order of keys.
type jsonEqual struct {
	Field     string   `yaml:"field"`
	Subset    bool     `yaml:"subset"`    // further keys are allowed
	Unordered bool     `yaml:"unordered"` // lists in any order
	Ignore    []string `yaml:"ignore"`    // keys that may be anything
}

func (o *jsonEqual) bind(row datasets.Row) (Grader, error) {
	raw, name, err := Gold{o.Field}.raw(row)
	if err != nil {
		return nil, err
	}
	gold, err := readJSON([]byte(plain(raw)))
	if err != nil {
		gold, err = readJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("row %s: %s %s is no JSON: %w", row.ID, name, clip(raw), err)
		}
	}
	return judged(func(text string) (bool, string) {
		got, err := jsonIn(text, gold)
		if err != nil {
			return false, err.Error()
		}
		where := o.differ(gold, got, "$")
		if where == "" {
			return true, "the same JSON"
		}
		return false, "differs at " + short(where)
	}), nil
}

func (o *jsonEqual) binary() bool { return true }

func (o *jsonEqual) key(_ datasets.Row, answer string) (string, bool) {
	v, err := jsonIn(answer, nil)
	if err != nil {
		return "", false
	}
	raw, err := json.Marshal(v)
	return string(raw), err == nil
}

// differ names the first place where two values are unequal; "": they are equal.
func (o *jsonEqual) differ(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at
		}
		return o.differObject(w, g, at)
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return at
		}
		if o.Unordered {
			if matching(len(w), len(g), func(i, j int) bool { return o.differ(w[i], g[j], at) == "" }) != len(w) {
				return at
			}
			return ""
		}
		for i := range w {
			if d := o.differ(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(w, g) {
			return ""
		}
		return at
	}
	if a, ok := want.(string); ok {
		b, ok := got.(string)
		if ok && norm.NFC.String(a) == norm.NFC.String(b) {
			return ""
		}
		return at
	}
	if want != got {
		return at
	}
	return ""
}

func (o *jsonEqual) differObject(w, g map[string]any, at string) string {
	for k, v := range w {
		if slices.Contains(o.Ignore, k) {
			continue
		}
		inner, ok := g[k]
		if !ok {
			return at + "." + k
		}
		if d := o.differ(v, inner, at+"."+k); d != "" {
			return d
		}
	}
	for k := range g {
		if _, ok := w[k]; !ok && !o.Subset && !slices.Contains(o.Ignore, k) {
			return at + "." + k
		}
	}
	return ""
}

// sameNumber compares by value: 1, 1.0 and 1e0 are the same.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, ok1 := parseNumber(string(a))
	y, ok2 := parseNumber(string(b))
	return ok1 && ok2 && x.Cmp(y) == 0
}

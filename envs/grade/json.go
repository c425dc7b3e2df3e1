package grade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"hermes/datasets"
)

var fence = regexp.MustCompile("(?s)```(?:json|JSON)?[ \t]*\r?\n(.*?)```")

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
	if err == nil {
		return v, nil
	}
	var last any
	found, fits := false, false
	take := func(v any) {
		_, isList := v.([]any)
		_, isObject := v.(map[string]any)
		_, list := wanted.([]any)
		_, object := wanted.(map[string]any)
		if like := list && isList || object && isObject; like || !fits {
			last, found, fits = v, true, like
		}
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if v, err := readJSON([]byte(m[1])); err == nil {
			take(v)
		}
	}
	if found {
		return last, nil
	}
	for i, tries := 0, 0; tries < 1000; tries++ {
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
		take(v)
		i += int(d.InputOffset())
	}
	if !found {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	return last, nil
}

func readJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something stands behind the JSON")
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
		if gold, err = readJSON(raw); err != nil {
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

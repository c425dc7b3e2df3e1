package parsers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// responseTemplate is how transformers describes the answers of a model: fields of the message,
// each between an opening and a closing mark. A field without an opening mark is what is
// outside of the others.
type responseTemplate struct {
	fields   []*responseField // in the order of their names
	implicit *responseField
	words    string // all literal text of the marks: no word of it is lost text
}

type responseField struct {
	name        string
	open, close *anchor
	content     string // how the text of the field is read
	args        contentArgs
	tags        *regexp.Regexp // of xml-inline
	transform   json.RawMessage
	each        bool
}

// contentArgs are the options of the readers of fields.
type contentArgs struct {
	Strip       *bool        `json:"strip"`
	Unquoted    bool         `json:"unquoted_keys"`
	Delims      [][2]string  `json:"string_delims"`
	AllowText   bool         `json:"allow_non_json"`
	TagPattern  string       `json:"tag_pattern"`
	LineSep     string       `json:"line_sep"`
	KVSep       string       `json:"kv_sep"`
	ValueParser *valueParser `json:"value_parser"`
}

type valueParser struct {
	Name string      `json:"name"`
	Args contentArgs `json:"args"`
}

func (a contentArgs) strips() bool { return a.Strip == nil || *a.Strip }

// FromResponseTemplate makes a family of a response template: the JSON object that a model's
// tokenizer_config.json has under response_template, or that file itself. Patterns that need
// what lies before or behind them, which only a backtracking reader could match, are refused.
// Format writes the content alone, so [Family.Write] refuses calls.
func FromResponseTemplate(source []byte) (Family, error) {
	var file struct {
		Template json.RawMessage `json:"response_template"`
	}
	if json.Unmarshal(source, &file) == nil && len(file.Template) > 0 {
		source = file.Template
	}
	t, err := loadResponseTemplate(source)
	if err != nil {
		return Family{}, fmt.Errorf("response template: %w", err)
	}
	return grammar{
		name:   "response_template",
		read:   t.read,
		format: func(content string, _ []Call) string { return content },
	}.family(), nil
}

// responseSpec is the object as it is written. Keys that nothing here reads are named too, as
// an unknown key is refused: they concern the message that transformers builds.
type responseSpec struct {
	Version  *int                       `json:"version"`
	Defaults json.RawMessage            `json:"defaults"`
	Anchor   json.RawMessage            `json:"start_anchor"`
	Pattern  json.RawMessage            `json:"start_anchor_pattern"`
	Fields   map[string]json.RawMessage `json:"fields"`
}

// fieldSpec is a field as it is written, with the keys that nothing here reads.
type fieldSpec struct {
	Open          json.RawMessage `json:"open"`
	OpenPattern   string          `json:"open_pattern"`
	Close         json.RawMessage `json:"close"`
	ClosePattern  string          `json:"close_pattern"`
	Content       string          `json:"content"`
	Args          json.RawMessage `json:"content_args"`
	Repeats       bool            `json:"repeats"`
	Join          *string         `json:"join"`
	Optional      *bool           `json:"optional"`
	Transform     json.RawMessage `json:"transform"`
	TransformEach bool            `json:"transform_each"`
}

func strictly(raw json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

func loadResponseTemplate(source []byte) (*responseTemplate, error) {
	var s responseSpec
	if err := strictly(source, &s); err != nil {
		return nil, fmt.Errorf("want an object with start_anchor and fields: %w", err)
	}
	if s.Version != nil && *s.Version != 1 {
		return nil, fmt.Errorf("version %d (only 1 is known)", *s.Version)
	}
	if len(s.Fields) == 0 {
		return nil, errors.New("it has no fields")
	}
	t := &responseTemplate{}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		f, err := t.field(name, s.Fields[name])
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		switch {
		case f.open != nil:
			t.fields = append(t.fields, f)
		case t.implicit != nil:
			return nil, fmt.Errorf("fields %q and %q both lack an opening mark", t.implicit.name, name)
		default:
			t.implicit = f
		}
	}
	return t, nil
}

var contentReaders = []string{"text", "int", "float", "bool", "json", "xml-inline", "kv-lines", "python-call-list"}

func (t *responseTemplate) field(name string, raw json.RawMessage) (*responseField, error) {
	var s fieldSpec
	if err := strictly(raw, &s); err != nil {
		return nil, err
	}
	f := &responseField{name: name, content: cmp.Or(s.Content, "text"), transform: s.Transform, each: s.TransformEach}
	if !slices.Contains(contentReaders, f.content) {
		return nil, fmt.Errorf("content %q (have %s)", f.content, strings.Join(contentReaders, ", "))
	}
	if len(s.Args) > 0 {
		if err := json.Unmarshal(s.Args, &f.args); err != nil {
			return nil, fmt.Errorf("content_args: %w", err)
		}
	}
	t.words += string(s.Transform) + " "
	var err error
	f.open, err = t.anchor(s.Open, s.OpenPattern)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	f.close, err = t.anchor(s.Close, s.ClosePattern)
	if err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	if f.content != "xml-inline" {
		return f, nil
	}
	tags, err := t.pattern(f.args.TagPattern)
	if err != nil {
		return nil, fmt.Errorf("tag_pattern: %w", err)
	}
	if tags.SubexpIndex("key") < 0 || tags.SubexpIndex("value") < 0 {
		return nil, fmt.Errorf("tag_pattern %q: want groups named key and value", f.args.TagPattern)
	}
	f.tags = tags
	return f, nil
}

// anchor is a mark: literal texts, or a pattern.
type anchor struct {
	literals []string
	first    *regexp.Regexp // from the beginning of the text
	later    *regexp.Regexp // from elsewhere: ^ does not match
}

func (t *responseTemplate) anchor(raw json.RawMessage, pattern string) (*anchor, error) {
	var one string
	a := &anchor{}
	switch {
	case len(raw) > 0 && pattern != "":
		return nil, errors.New("a text and a pattern")
	case pattern != "":
		var err error
		a.first, err = t.pattern(pattern)
		if err != nil {
			return nil, err
		}
		a.later, err = later(pattern)
		return a, err
	case len(raw) == 0:
		return nil, nil
	case json.Unmarshal(raw, &one) == nil:
		a.literals = []string{one}
	default:
		if err := json.Unmarshal(raw, &a.literals); err != nil {
			return nil, fmt.Errorf("want a text or a list of texts: %w", err)
		}
	}
	if len(a.literals) == 0 || slices.Contains(a.literals, "") {
		return nil, errors.New("an empty mark")
	}
	// the longest first, so that a mark that begins another does not hide it
	slices.SortStableFunc(a.literals, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	t.words += strings.Join(a.literals, " ") + " "
	return a, nil
}

// pythonPattern spells a pattern of Python for Go.
func pythonPattern(pattern string) string { return strings.ReplaceAll(pattern, `\Z`, `\z`) }

func (t *responseTemplate) pattern(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("(?s)" + pythonPattern(pattern))
	if err != nil {
		return nil, fmt.Errorf("pattern %q cannot be matched in one pass: %w", pattern, err)
	}
	t.words += pattern + " "
	return re, nil
}

// later is a pattern for texts of which a part was read: what must be at their beginning is
// never there.
func later(pattern string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse("(?s)"+pythonPattern(pattern), syntax.Perl)
	if err != nil {
		return nil, err
	}
	var walk func(*syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		if r.Op == syntax.OpBeginText {
			r.Op, r.Flags = syntax.OpNoMatch, 0
		}
		for _, s := range r.Sub {
			walk(s)
		}
	}
	walk(tree)
	return regexp.Compile(tree.String())
}

// mark is one place where an anchor matches.
type mark struct {
	a, b   int
	groups []pair // named groups, their text
}

// find looks for the anchor at or behind at.
func (a *anchor) find(p *parse, at int) (mark, bool) {
	if a.first == nil {
		best := mark{a: -1}
		for _, l := range a.literals {
			if i := p.index(l, at); i >= 0 && (best.a < 0 || i < best.a) {
				best = mark{a: i, b: i + len(l)}
			}
		}
		return best, best.a >= 0
	}
	re := a.first
	if at > 0 {
		re = a.later
	}
	m := re.FindStringSubmatchIndex(p.text[at:])
	if m == nil {
		return mark{}, false
	}
	out := mark{a: at + m[0], b: at + m[1]}
	for i, name := range re.SubexpNames() {
		if name != "" && m[2*i] >= 0 {
			out.groups = append(out.groups, pair{name, p.text[at+m[2*i] : at+m[2*i+1]]})
		}
	}
	return out, true
}

package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hermes/parsers/tokenizer/pattern"
	"hermes/parsers/tokenizer/unidata"
	"hermes/trajectory"
)

// component is any part of a tokenizer.json's pipeline; which fields count depends on Type.
type component struct {
	Type           string                     `json:"type"`
	Normalizers    []component                `json:"normalizers"`
	Pretokenizers  []component                `json:"pretokenizers"`
	Decoders       []component                `json:"decoders"`
	Processors     []component                `json:"processors"`
	Pattern        *patternSpec               `json:"pattern"`
	Content        string                     `json:"content"`
	Prepend        string                     `json:"prepend"`
	StripLeft      bool                       `json:"strip_left"`
	StripRight     bool                       `json:"strip_right"`
	Behavior       string                     `json:"behavior"`
	Invert         bool                       `json:"invert"`
	AddPrefixSpace *bool                      `json:"add_prefix_space"`
	UseRegex       *bool                      `json:"use_regex"`
	Individual     bool                       `json:"individual_digits"`
	Replacement    string                     `json:"replacement"`
	PrependScheme  string                     `json:"prepend_scheme"`
	Split          *bool                      `json:"split"`
	Delimiter      string                     `json:"delimiter"`
	Length         *int                       `json:"length"`
	Start          int                        `json:"start"`
	Stop           int                        `json:"stop"`
	Suffix         *string                    `json:"suffix"`
	Single         []map[string]templatePiece `json:"single"`
	Specials       map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
	Sep json.RawMessage `json:"sep"`
	Cls json.RawMessage `json:"cls"`
}

type templatePiece struct {
	ID string `json:"id"`
}

type patternSpec struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// FromJSON reads a tokenizer.json. Truncation and padding that it declares are not applied.
func FromJSON(b []byte) (Tokenizer, error) {
	if n := len("\ufeff"); len(b) >= n && string(b[:n]) == "\ufeff" {
		b = b[n:]
	}
	s := &scanner{b: b}
	var f modelFile
	var parts struct {
		normalizer, pre, post, decoder *component
		added                          []addedToken
	}
	seenModel := false
	err := s.object(func(key string) error {
		if key == "model" {
			seenModel = true
			return f.scan(s)
		}
		v, err := s.value()
		if err != nil {
			return err
		}
		var to any
		switch key {
		case "added_tokens":
			to = &parts.added
		case "normalizer":
			to = &parts.normalizer
		case "pre_tokenizer":
			to = &parts.pre
		case "post_processor":
			to = &parts.post
		case "decoder":
			to = &parts.decoder
		default:
			return nil
		}
		if err := json.Unmarshal(v, to); err != nil {
			return malformed("%s: %v", key, err)
		}
		return nil
	})
	if err == nil && s.space() != 0 {
		err = s.fail("text behind the end")
	}
	if err == nil && !seenModel {
		err = malformed("no model")
	}
	if err != nil {
		return nil, err
	}
	e := &engine{}
	if err := e.normalizers(parts.normalizer, 0); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := e.pretokenizers(parts.pre, 0); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	bytewise := false
	if n := len(e.pre); n > 0 {
		_, bytewise = e.pre[n-1].(spelled)
	}
	e.model, err = newBPE(&f, bytewise)
	if err != nil {
		return nil, err
	}
	if e.model.bytewise {
		e.pre = e.pre[:len(e.pre)-1]
	}
	e.size = len(e.model.tokens)
	if err := e.install(parts.added); err != nil {
		return nil, err
	}
	if err := e.postprocessors(parts.post, 0); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if parts.decoder == nil {
		e.decoders = []func() stage{spacedStage}
	} else if err := e.decoderChain(flatten(parts.decoder, 0)); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return e, nil
}

const (
	maxParts  = 64 // components of one kind, and their nesting
	maxGrowth = 64 // bytes that the replacements of one kind, one behind the other, may make of one
)

// growth is the most that replacements make of a byte. Three of "a" by 2,000 of them would
// make 8 GB of each a, and the file may come from anyone.
type growth int

// by counts a replacement of what is at least from bytes long by to bytes.
func (g *growth) by(from, to int) error {
	factor := max(1, (to+from-1)/from)
	*g = max(*g, 1)
	if factor > maxGrowth || int(*g)*factor > maxGrowth {
		return unsupported("replacements that may make more than %d bytes of one", maxGrowth)
	}
	*g *= growth(factor)
	return nil
}

// replaces counts a Replace; a pattern may match nothing, and put its text before each byte.
func (g *growth) replaces(p *pattern.Pattern, text, content string) error {
	if p != nil {
		return g.by(1, 1+len(content))
	}
	return g.by(max(1, len(text)), len(content))
}

func (e *engine) normalizers(c *component, depth int) error {
	if c == nil {
		return nil
	}
	if depth > maxParts || len(e.normal) > maxParts {
		return malformed("more than %d components", maxParts)
	}
	var n normalizer
	switch c.Type {
	case "Sequence":
		for i := range c.Normalizers {
			if err := e.normalizers(&c.Normalizers[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	case "NFC":
		n = unicodeForm(norm.NFC)
	case "NFD":
		n = unicodeForm(norm.NFD)
	case "NFKC":
		n = unicodeForm(norm.NFKC)
	case "NFKD":
		n = unicodeForm(norm.NFKD)
	case "Lowercase":
		n = textual(lowercase)
	case "Prepend":
		if err := e.grown.by(1, 1+len(c.Prepend)); err != nil {
			return err
		}
		n = prepending(c.Prepend)
	case "Strip":
		n = stripping{c.StripLeft, c.StripRight}
	case "ByteLevel":
		n = textual(spell)
	case "Replace":
		p, text, err := c.Pattern.compile()
		if err != nil {
			return err
		}
		if err := e.grown.replaces(p, text, c.Content); err != nil {
			return err
		}
		n = replacing{p, text, c.Content}
	default:
		return unsupported("%q", c.Type)
	}
	e.normal = append(e.normal, n)
	return nil
}

func (p *patternSpec) compile() (*pattern.Pattern, string, error) {
	switch {
	case p == nil || (p.String == nil) == (p.Regex == nil):
		return nil, "", malformed("pattern is neither String nor Regex")
	case p.String != nil:
		return nil, *p.String, nil
	}
	r, err := pattern.Compile(*p.Regex, pattern.Oniguruma)
	if err != nil {
		err = unsupported("%v", err)
	}
	return r, "", err
}

func (e *engine) pretokenizers(c *component, depth int) error {
	if c == nil {
		return nil
	}
	if depth > maxParts || len(e.pre) > maxParts {
		return malformed("more than %d components", maxParts)
	}
	how, err := behaviorOf(c.Behavior)
	if err != nil {
		return err
	}
	if c.Type == "Sequence" {
		for i := range c.Pretokenizers {
			if err := e.pretokenizers(&c.Pretokenizers[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	list, err := c.splitters(how)
	if err != nil {
		return err
	}
	e.pre = append(e.pre, list...)
	return nil
}

// splitters are the steps of one pre-tokenizer.
func (c *component) splitters(how behavior) ([]splitter, error) {
	switch c.Type {
	case "ByteLevel":
		return c.byteLevel()
	case "Split":
		s, err := c.split(how)
		return []splitter{s}, err
	case "Digits":
		if c.Individual {
			return []splitter{cuttingFlag(unidata.Numeric, isolated)}, nil
		}
		return []splitter{cuttingFlag(unidata.Numeric, contiguous)}, nil
	case "Punctuation":
		return []splitter{cuttingFlag(unidata.Punct, how)}, nil
	case "Whitespace":
		p, err := pattern.Compile(`\w+|[^\w\s]+`, pattern.Rust)
		return []splitter{cutting{find: finding(p), regex: p, how: removed, invert: true}}, err
	case "WhitespaceSplit":
		return []splitter{cuttingFlag(unidata.Space, removed)}, nil
	case "CharDelimiterSplit":
		if utf8.RuneCountInString(c.Delimiter) != 1 {
			return nil, malformed("delimiter %q", c.Delimiter)
		}
		return []splitter{cutting{find: findingText(c.Delimiter), how: removed}}, nil
	case "FixedLength":
		if c.Length == nil || *c.Length < 1 {
			return nil, malformed("FixedLength without a length")
		}
		return []splitter{fixed(*c.Length)}, nil
	case "Metaspace":
		m, err := c.metaspace()
		return []splitter{m}, err
	}
	return nil, unsupported("%q", c.Type)
}

func (c *component) byteLevel() ([]splitter, error) {
	var list []splitter
	if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
		list = append(list, prefixing{})
	}
	if c.UseRegex == nil || *c.UseRegex {
		p, err := pattern.Compile(gpt2, pattern.Oniguruma)
		if err != nil {
			return nil, err
		}
		list = append(list, cutting{find: finding(p), regex: p})
	}
	return append(list, spelled{}), nil
}

func (c *component) split(how behavior) (splitter, error) {
	p, text, err := c.Pattern.compile()
	switch {
	case err != nil:
		return nil, err
	case c.Behavior == "":
		return nil, malformed("Split without a behavior")
	case p != nil:
		return cutting{find: finding(p), regex: p, how: how, invert: c.Invert}, nil
	case text == "":
		return nil, unsupported("Split at an empty string")
	}
	return cutting{find: findingText(text), how: how, invert: c.Invert}, nil
}

func behaviorOf(s string) (behavior, error) {
	switch s {
	case "", "Isolated":
		return isolated, nil
	case "Removed":
		return removed, nil
	case "Contiguous":
		return contiguous, nil
	case "MergedWithPrevious":
		return mergedWithPrevious, nil
	case "MergedWithNext":
		return mergedWithNext, nil
	}
	return 0, unsupported("behavior %q", s)
}

func (c *component) metaspace() (metaspace, error) {
	m := metaspace{c.Replacement, c.PrependScheme, c.Split == nil || *c.Split}
	if utf8.RuneCountInString(m.mark) != 1 {
		return m, malformed("Metaspace replacement %q", m.mark)
	}
	m.scheme = cmp.Or(m.scheme, "always")
	if m.scheme != "always" && m.scheme != "first" && m.scheme != "never" {
		return m, unsupported("prepend_scheme %q", m.scheme)
	}
	if c.AddPrefixSpace != nil && !*c.AddPrefixSpace && m.scheme != "never" {
		return m, malformed("add_prefix_space does not match prepend_scheme %q", m.scheme)
	}
	return m, nil
}

// postprocessors wraps the sequence from the inside out.
func (e *engine) postprocessors(c *component, depth int) error {
	if c == nil {
		return nil
	}
	if depth > maxParts {
		return malformed("more than %d components", maxParts)
	}
	var before, after []trajectory.Token
	switch c.Type {
	case "Sequence":
		for i := range c.Processors {
			if err := e.postprocessors(&c.Processors[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		return nil
	case "BertProcessing", "RobertaProcessing":
		for _, pair := range []struct {
			raw json.RawMessage
			to  *[]trajectory.Token
		}{{c.Cls, &before}, {c.Sep, &after}} {
			var text string
			var id int64
			if err := json.Unmarshal(pair.raw, &[]any{&text, &id}); err != nil || id < 0 || id >= int64(e.size) {
				return malformed("%s with %s", c.Type, pair.raw)
			}
			*pair.to = append(*pair.to, trajectory.Token(id))
		}
	case "TemplateProcessing":
		var err error
		before, after, err = e.template(c)
		if err != nil {
			return err
		}
	default:
		return unsupported("%q", c.Type)
	}
	e.before, e.after = append(before, e.before...), append(e.after, after...)
	if len(e.before)+len(e.after) > 1024 {
		return malformed("more than 1024 tokens around a sequence")
	}
	return nil
}

func (e *engine) template(c *component) (before, after []trajectory.Token, err error) {
	seen := false
	for _, piece := range c.Single {
		if p, ok := piece["Sequence"]; ok {
			if seen || p.ID != "A" {
				return nil, nil, unsupported("template with sequence %q again or alone", p.ID)
			}
			seen = true
			continue
		}
		p, ok := piece["SpecialToken"]
		if !ok {
			return nil, nil, malformed("template piece %v", piece)
		}
		special, ok := c.Specials[p.ID]
		if !ok {
			return nil, nil, malformed("template names %q, which special_tokens lacks", p.ID)
		}
		for _, id := range special.IDs {
			if id < 0 || id >= int64(e.size) {
				return nil, nil, malformed("template token %q has id %d of %d", p.ID, id, e.size)
			}
			if seen {
				after = append(after, trajectory.Token(id))
			} else {
				before = append(before, trajectory.Token(id))
			}
		}
	}
	if !seen {
		return nil, nil, unsupported("template without the sequence")
	}
	return before, after, nil
}

package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// flatten lists the decoders of nested sequences in order.
func flatten(c *component, depth int) []*component {
	if c.Type != "Sequence" || depth > maxParts {
		return []*component{c}
	}
	var out []*component
	for i := range c.Decoders {
		out = append(out, flatten(&c.Decoders[i], depth+1)...)
	}
	return out
}

// decoderChain builds the stages. Behind Fuse and ByteLevel the text is one token that
// comes in parts, and what follows must not look at parts.
func (e *engine) decoderChain(cs []*component) error {
	if len(cs) > maxParts {
		return malformed("more than %d components", maxParts)
	}
	fused := false
	var grown growth
	for _, c := range cs {
		if c.Type == "Replace" {
			text, err := c.plain()
			if err == nil {
				err = grown.replaces(nil, text, c.Content)
			}
			if err != nil {
				return err
			}
		}
		s, err := c.decoder(fused)
		if err != nil {
			return err
		}
		if s != nil {
			e.decoders = append(e.decoders, s)
		}
		fused = fused || c.Type == "Fuse" || c.Type == "ByteLevel"
	}
	return nil
}

func (c *component) decoder(fused bool) (func() stage, error) {
	if fused {
		return c.fusedDecoder()
	}
	each := func(f func(string, bool) string) (func() stage, error) {
		return func() stage { return &eachStage{f: f} }, nil
	}
	switch c.Type {
	case "Fuse":
		return nil, nil
	case "ByteLevel":
		return func() stage { return &bytesStage{} }, nil
	case "ByteFallback":
		return func() stage { return &fallbackStage{} }, nil
	case "Metaspace":
		m, err := c.metaspace()
		if err != nil {
			return nil, err
		}
		return each(func(t string, first bool) string {
			if first && m.scheme != "never" {
				return strings.ReplaceAll(t, m.mark, "")
			}
			return strings.ReplaceAll(t, m.mark, " ")
		})
	case "BPEDecoder":
		suffix := "</w>"
		if c.Suffix != nil {
			suffix = *c.Suffix
		}
		if suffix == "" {
			return nil, unsupported("BPEDecoder with an empty suffix")
		}
		return func() stage { return &lastStage{suffix: suffix} }, nil
	case "Replace":
		text, err := c.plain()
		if err != nil {
			return nil, err
		}
		return each(func(t string, _ bool) string { return strings.ReplaceAll(t, text, c.Content) })
	case "Strip":
		r, err := c.stripped()
		if err != nil {
			return nil, err
		}
		return each(func(t string, _ bool) string { return strip(t, r, c.Start, c.Stop) })
	}
	return nil, unsupported("%q", c.Type)
}

func (c *component) plain() (string, error) {
	p, text, err := c.Pattern.compile()
	if err == nil && (p != nil || text == "") {
		err = unsupported("Replace with a pattern that is no plain text")
	}
	return text, err
}

func (c *component) stripped() (rune, error) {
	r, n := utf8.DecodeRuneInString(c.Content)
	if n == 0 || n != len(c.Content) || c.Start < 0 || c.Stop < 0 {
		return 0, malformed("Strip of %q, %d and %d", c.Content, c.Start, c.Stop)
	}
	return r, nil
}

func (c *component) fusedDecoder() (func() stage, error) {
	switch c.Type {
	case "Fuse":
		return nil, nil
	case "Replace":
		text, err := c.plain()
		if err != nil {
			return nil, err
		}
		f := func(s string) string { return strings.ReplaceAll(s, text, c.Content) }
		if utf8.RuneCountInString(text) == 1 {
			return func() stage { return &eachStage{f: func(t string, _ bool) string { return f(t) }} }, nil
		}
		return func() stage { return &wholeStage{f: f} }, nil
	case "Strip":
		r, err := c.stripped()
		if err != nil {
			return nil, err
		}
		if c.Stop == 0 {
			return func() stage { return &fusedStrip{r, c.Start} }, nil
		}
		return func() stage {
			return &wholeStage{f: func(s string) string { return strip(s, r, c.Start, c.Stop) }}
		}, nil
	}
	return nil, unsupported("%q behind Fuse or ByteLevel", c.Type)
}

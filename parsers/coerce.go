package parsers

import (
	"slices"
	"strings"

	"hermes/internal/pyvalue"
	"hermes/internal/schema"
)

// coerce turns the raw text of a parameter into JSON as the schema allows.
func (p *parse) coerce(tool, key, raw string) string {
	if p.k.StripValues {
		raw = strings.TrimSpace(raw)
	}
	if p.k.Ladder == ByGuess {
		return guess(raw)
	}
	own := p.tools.params(tool).Sub("properties").Sub(key) // without following references
	if p.k.TextUntyped && own["type"] == nil {
		return quote(raw)
	}
	if p.k.JSONButText && own != nil {
		if text := strings.TrimSpace(raw); own["type"] != "string" && isJSON(text) {
			return text
		}
		return quote(raw)
	}
	if p.k.JSONUndeclared && (own == nil || p.opt.Dialect == SGLang && len(own.Allowed(nil)) == 0 && own["$ref"] == nil) {
		if text := strings.TrimSpace(raw); isJSON(text) {
			return text
		}
		return quote(raw)
	}
	if p.k.KeepNull && strings.TrimSpace(raw) == "null" && slices.Equal(p.tools.params(tool).Prop(key).Types(p.tools.params(tool)), []string{"string"}) {
		return quote(raw)
	}
	if p.opt.Dialect == SGLang && strings.EqualFold(strings.TrimSpace(raw), "null") {
		if p.k.Ladder == BySGLang {
			return "null"
		}
	}
	params := p.tools.params(tool)
	prop := params.Prop(key)
	if p.k.EngineTypes { // it follows no references
		prop, params = params.Sub("properties").Sub(key), nil
	}
	if p.k.Ladder == BySGLang {
		return sglangValue(prop, params, raw, p.k.LooseBool)
	}
	if prop == nil {
		return quote(raw)
	}
	return p.declared(prop, params, raw)
}

// declared is the text of a value as its schema wants it, objects and lists in the spelling
// of Python too where the dialect reads them.
func (p *parse) declared(prop, params schema.Node, raw string) string {
	v := p.bySchema(prop, params, raw)
	if !p.k.PyObjects || v[0] != '"' {
		return v
	}
	if types := prop.Types(params); (slices.Contains(types, "object") || slices.Contains(types, "array")) && (p.opt.Dialect != Ours || !slices.Contains(types, "string")) {
		text := strings.TrimSpace(raw)
		bytes := false
		fixed, n, err := pyvalue.Read(text, pyvalue.Options{Odd: &bytes})
		if err == nil && !bytes && n == len(text) && (p.opt.Dialect != Ours || fixed[0] == '{' && text[0] == '{' || fixed[0] == '[') {
			if fixed[0] == '{' || fixed[0] == '[' {
				return p.within(prop, params, fixed)
			}
			return fixed
		}
	}
	return v
}

// bySchema tries the declared types in a fixed order; text that fits none stays text.
func (p *parse) bySchema(s, root schema.Node, raw string) string {
	types := s.Types(root)
	text := strings.TrimSpace(raw)
	hasText := slices.Contains(types, "string")
	ours := p.opt.Dialect == Ours
	for _, t := range [...]string{"null", "integer", "number", "boolean", "object", "array"} {
		if !slices.Contains(types, t) {
			continue
		}
		switch {
		case t == "boolean" && ours && hasText && len(text) < len("true"):
			continue // 1 is a text where texts are allowed
		case t == "null" && (!ours && strings.EqualFold(text, "null") || ours && !hasText && text == "None"):
			return "null"
		}
		v, ok := as(t, text)
		if !ok && p.k.EngineTypes && (t == "object" || t == "array") && isFinite(text) {
			return text
		}
		if ok {
			if t == "object" || t == "array" {
				return p.within(s, root, v)
			}
			return v
		}
	}
	if p.k.EngineTypes && !hasText && isFinite(text) {
		return text // whatever it is
	}
	return quote(raw)
}

func as(t, text string) (string, bool) {
	switch t {
	case "null":
		return "null", text == "null"
	case "integer":
		v, n, err := pyvalue.Read(text, pyvalue.Options{})
		v = strings.TrimPrefix(v, "+")
		return v, err == nil && n == len(text) && isInteger(v)
	case "number":
		v, n, err := pyvalue.Read(text, pyvalue.Options{})
		return v, err == nil && n == len(text) && v != "" && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "1":
			return "true", true
		case "false", "0":
			return "false", true
		}
	case "object", "array":
		want := byte('{')
		if t == "array" {
			want = '['
		}
		if text == "" || text[0] != want {
			return "", false
		}
		return text, isFinite(text)
	}
	return "", false
}

func isInteger(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// within applies declared properties and items inside a parsed value: strings that
// should be of another type are coerced.
func (p *parse) within(s, root schema.Node, text string) string {
	sc := scanner{text: text}
	switch text[0] {
	case '{':
		if !s.Any(root, "properties") {
			return text
		}
		ms, _, err := sc.object(0)
		if err != nil {
			return text
		}
		return p.rewrite(text, ms, func(m member) schema.Node { return s.Member(root, m.key) }, root)
	case '[':
		items := s.Items(root)
		if items == nil {
			return text
		}
		ms, _, err := sc.list(0)
		if err != nil {
			return text
		}
		return p.rewrite(text, ms, func(member) schema.Node { return items }, root)
	}
	return text
}

func (p *parse) rewrite(text string, ms []member, of func(member) schema.Node, root schema.Node) string {
	var b strings.Builder
	at := 0
	for _, m := range ms {
		b.WriteString(text[at:m.a])
		b.WriteString(p.inner(of(m), root, text[m.a:m.b]))
		at = m.b
	}
	b.WriteString(text[at:])
	return b.String()
}

func (p *parse) inner(s, root schema.Node, v string) string {
	if s == nil {
		return v
	}
	if v[0] == '{' || v[0] == '[' {
		return p.within(s, root, v)
	}
	if p.k.EngineTypes { // strings and scalars alike
		t, ok := unquote(v)
		if v[0] == '"' && !ok {
			return v
		}
		return p.bySchema(s, root, t)
	}
	if v[0] == '"' {
		if t, ok := unquote(v); ok && !slices.Contains(s.Types(root), "string") {
			return p.bySchema(s, root, t)
		}
	}
	return v
}

// guess is upstream's way: JSON, then a Python literal, then text.
func guess(raw string) string {
	text := strings.TrimSpace(raw)
	if isJSON(text) {
		return text
	}
	bytes := false
	if v, n, err := pyvalue.Read(text, pyvalue.Options{PythonOnly: true, Odd: &bytes}); err == nil && !bytes && n == len(text) && (text[0] != '{' || v[0] == '{') {
		return v // sets and bytes are no JSON: the peers keep their text
	}
	return quote(raw)
}

// sglangValue is SGLang's ladder: the plain type counts, null is always null. loose keeps what
// is no boolean where one is declared.
func sglangValue(s, root schema.Node, raw string, loose bool) string {
	t, ok := s["type"].(string)
	if s == nil {
		return quote(raw)
	}
	if !ok {
		t = s.Types(root)[0]
	}
	text := strings.TrimSpace(raw)
	t = schema.LooseType(t)
	switch t {
	case "string":
		return quote(raw)
	case "boolean":
		if strings.EqualFold(text, "true") {
			return "true"
		}
		if loose && !strings.EqualFold(text, "false") {
			return guess(raw)
		}
		return "false"
	}
	if v, ok := as(t, text); ok {
		return v
	}
	if once, ok := unquote(`"` + text + `"`); ok && strings.Contains(text, `\`) && isJSON(once) {
		return once // one level of escapes too many
	}
	return guess(raw)
}

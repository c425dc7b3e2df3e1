package parsers

import (
	"slices"
	"strings"
)

// MiniCPM5 writes function elements without a frame around them; a call that does
// not fit the declared tool is left as text.
var MiniCPM5 = grammar{
	name:  "minicpm5",
	think: plainThink.until(miniOpen...),
	read:  readMiniCPM,
	format: func(content string, calls []Call) string {
		return content + xmlText("", "", `<function name="%">`, "</function>", `<param name="%">`, "</param>", "", calls)
	},
}.family()

// miniOpen lists the spellings of the opening tag; the blank may be lost or stand as
// the byte-level letter of the tokenizer.
var miniOpen = []string{"<function name=", "<functionname=", "<functionĠname="}

func readMiniCPM(p *parse) {
	at := p.pos
	for {
		i, open := p.nextOf(miniOpen, at)
		if open == "" {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		name, _, from, ok := tag(p.text, i+len(open))
		ps, next, st := miniParams(p, name, from)
		if p.opt.Dialect == VLLM {
			ps = miniMended(p, name, ps)
		}
		switch {
		case !ok || st == Malformed || st == Truncated || !miniFits(p, name, ps):
			p.refuse(i, max(next, i+len(open)), "malformed", "a call of %q that does not fit", name)
			at = max(next, i+len(open))
		default:
			p.call(i, next, name, p.object(ps), st)
			at = next
		}
	}
}

func miniParams(p *parse, tool string, at int) ([]pair, int, State) {
	var ps []pair
	state := Complete
	for {
		k := p.skipSpace(at)
		switch {
		case k == len(p.text):
			return ps, k, Truncated
		case p.at("</function>", k):
			return ps, k + len("</function>"), state
		case p.at("<arguments>", k):
			at = k + len("<arguments>")
		case p.at("</arguments>", k):
			at = k + len("</arguments>")
		case p.at("<param", k):
			eq := strings.Index(p.text[k:min(len(p.text), k+16)], "name=")
			if eq < 0 {
				return ps, k, worse(Malformed, cutAt(k+16, len(p.text)))
			}
			key, _, from, ok := tag(p.text, k+eq+len("name="))
			if !ok {
				return ps, from, worse(Malformed, cutAt(from, len(p.text)))
			}
			if !p.keyLike(tool, key) {
				state = Malformed
			}
			raw, next := miniValue(p, from)
			if next < 0 {
				return ps, len(p.text), Truncated
			}
			if p.opt.Dialect == Ours && (strings.Contains(raw, "<param") || strings.Contains(raw, "</param>") || strings.Contains(raw, "<function")) && !strings.HasPrefix(strings.TrimSpace(p.text[from:]), "<![CDATA[") {
				state = worse(state, Ambiguous) // it may be two
			}
			ps = append(ps, pair{key, miniTyped(p, tool, key, raw)})
			at = next
		default:
			if e := p.index("</function>", k); e >= 0 {
				return ps, e + len("</function>"), Malformed
			}
			return ps, len(p.text), Malformed
		}
	}
}

func miniValue(p *parse, from int) (string, int) {
	const cdata, end = "<![CDATA[", "]]>"
	if k := p.skipSpace(from); p.at(cdata, k) {
		if e := p.index(end, k); e >= 0 {
			if c := p.skipSpace(e + len(end)); p.at("</param>", c) {
				return p.text[k+len(cdata) : e], c + len("</param>")
			}
		}
	}
	e := p.index("</param>", from)
	if e < 0 {
		return "", -1
	}
	for c := e; c >= 0 && p.opt.Dialect == Ours; c = p.index("</param>", c+1) {
		if miniFramed(p, c+len("</param>")) {
			e = c
			break
		}
	}
	return p.text[from:e], e + len("</param>")
}

// miniFramed says that a value may end before i: the call goes on or ends behind it, and no
// value ends there that began before.
func miniFramed(p *parse, i int) bool {
	const tail = "</param>"
	k := p.skipSpace(i)
	if p.at("</arguments>", k) {
		k = p.skipSpace(k + len("</arguments>"))
	}
	if k == len(p.text) || p.at("<param", k) {
		return true
	}
	end, par := p.index(tail, k), p.index("<param", k)
	return p.at("</function>", k) && (end < 0 || par >= 0 && par < end)
}

func miniTyped(p *parse, tool, key, raw string) string {
	prop := p.tools.params(tool).Prop(key)
	if prop == nil {
		return quote(raw)
	}
	types := prop.Types(p.tools.params(tool))
	if slices.Equal(types, []string{"string"}) {
		return quote(raw)
	}
	v := guess(raw)
	if t := typeOfText(v); p.opt.Dialect == Ours && slices.Contains(types, "string") && !slices.Contains(types, t) && !(t == "integer" && slices.Contains(types, "number")) {
		return quote(raw) // 5 is a text where texts and null are allowed
	}
	return v
}

// typeOfText is the type of a JSON text.
func typeOfText(text string) string {
	switch text[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if strings.ContainsAny(text, ".eE") {
		return "number"
	}
	return "integer"
}

// miniMended is what vLLM makes of the parameters: a wrapper named arguments or properties
// is undone, what is not declared is left out.
func miniMended(p *parse, tool string, ps []pair) []pair {
	props := p.tools.params(tool).Sub("properties")
	if props == nil {
		return ps
	}
	if len(ps) == 1 && (ps[0].key == "arguments" || ps[0].key == "properties") && props[ps[0].key] == nil {
		text := ps[0].value
		if t, ok := unquote(text); ok {
			text = guess(t)
		}
		sc := scanner{text: text}
		if ms, end, err := sc.object(0); err == nil && end == len(text) {
			ps = nil
			for _, m := range ms {
				ps = append(ps, pair{m.key, text[m.a:m.b]})
			}
		}
	}
	return slices.DeleteFunc(ps, func(q pair) bool { return props[q.key] == nil })
}

// miniFits says whether the call has a declared name, only declared keys, none of
// them twice, and all that are required.
func miniFits(p *parse, name string, ps []pair) bool {
	if !p.tools.known() {
		return true
	}
	if !p.tools.has(name) {
		return false
	}
	s := p.tools.params(name)
	props := s.Sub("properties")
	got := map[string]bool{}
	for _, q := range ps {
		if got[q.key] || props != nil && props[q.key] == nil {
			return false
		}
		got[q.key] = true
	}
	required, _ := s["required"].([]any)
	for _, r := range required {
		if n, ok := r.(string); ok && !got[n] {
			return false
		}
	}
	return strings.TrimSpace(name) != ""
}

package parsers

import (
	"strings"

	"hermes/internal/schema"
)

// Gemma4 and FunctionGemma write call:NAME{key:value,…} with marks around strings.
var (
	Gemma4 = gemmaGrammar("gemma4", gemma{"<|tool_call>", "<tool_call|>", `<|"|>`},
		think{open: "<|channel>thought\n", close: "<channel|>"}.until("<|tool_call>")).family()
	FunctionGemma = gemmaGrammar("functiongemma", gemma{"<start_function_call>", "<end_function_call>", "<escape>"}, think{}).family()
)

// gemmaThought names the channel of reasoning.
const gemmaThought = "thought\n"

type gemma struct{ open, close, mark string }

func gemmaGrammar(name string, g gemma, t think) grammar {
	return grammar{
		name:  name,
		think: t,
		read:  g.read,
		format: func(content string, calls []Call) string {
			return join(content, calls, "", func(_ int, c Call) string {
				return g.open + "call:" + c.Name + g.spell(c.Arguments) + g.close
			})
		},
	}
}

// spell writes JSON in the family's own syntax.
func (g gemma) spell(v string) string {
	if v == "" {
		return "{}"
	}
	sc := scanner{text: v, raw: true}
	switch v[0] {
	case '{':
		ms, _, _ := sc.object(0)
		parts := make([]string, len(ms))
		for i, m := range ms {
			parts[i] = m.key + ":" + g.spell(v[m.a:m.b])
		}
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		ms, _, _ := sc.list(0)
		parts := make([]string, len(ms))
		for i, m := range ms {
			parts[i] = g.spell(v[m.a:m.b])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '"':
		t, _ := unquote(v)
		return g.mark + t + g.mark
	}
	return v
}

func (g gemma) read(p *parse) {
	at := p.pos
	for {
		i := p.index(g.open, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = g.call(p, i)
	}
}

func (g gemma) call(p *parse, i int) int {
	if g.mark == "<escape>" && p.opt.Dialect == VLLM {
		return g.escaped(p, i)
	}
	j := p.skipSpace(i + len(g.open))
	brace := p.index("{", j)
	stop := len(p.text)
	if c := p.index(g.close, j); c >= 0 {
		stop = c
	}
	if !p.at("call:", j) || brace < 0 || brace > stop {
		stop = min(stop+len(g.close), len(p.text))
		p.refuse(i, stop, "malformed", "no call after %s", g.open)
		return stop
	}
	name := strings.TrimSpace(p.text[j+len("call:") : brace])
	r := gemmaReader{p: p, mark: g.mark, close: g.close, open: g.open, i: brace}
	args := r.value(p.tools.params(name), p.tools.params(name), 0)
	end, st := r.i, Complete
	switch k := p.skipSpace(end); {
	case p.at(g.close, k) && !r.cut:
		end = k + len(g.close)
	case r.cut && p.k.NeedClose:
		p.refuse(i, len(p.text), "truncated", "call of %q is cut", name)
		return len(p.text)
	case r.cut:
		st = Truncated
		if c := p.index(g.close, end); c >= 0 {
			end = c + len(g.close)
		}
	default:
		st = Recovered
		if c := p.index(g.close, end); c >= 0 {
			end = c + len(g.close)
		} else if p.k.NeedClose {
			p.refuse(i, len(p.text), "truncated", "call of %q without %s", name, g.close)
			return len(p.text)
		}
	}
	if name == "" {
		p.refuse(i, end, "malformed", "a call without a name")
		return end
	}
	p.call(i, end, name, args, worse(st, r.st))
	return end
}

// pyWords are the words of Python.
var pyWords = map[string]string{"None": "null", "True": "true", "False": "false"}

// gemmaReader reads the values of one call and writes JSON.
type gemmaReader struct {
	p                 *parse
	mark, close, open string
	i                 int
	cut               bool
	object            bool  // the value being read is a member of an object
	st                State // how far the values may be trusted; empty is complete
}

func (r *gemmaReader) doubt(st State) { r.st = worse(r.st, st) }

func (r *gemmaReader) ours() bool { return r.p.opt.Dialect == Ours }

func (r *gemmaReader) value(s, root schema.Node, depth int) string {
	r.i = r.p.skipSpace(r.i)
	text := r.p.text
	switch {
	case r.i >= len(text):
		r.cut = true
		return ""
	case r.p.at(r.mark, r.i):
		if r.ours() {
			return r.marked(s, root)
		}
		return r.str(s, root)
	case r.ours() && (text[r.i] == '"' || text[r.i] == '\''):
		if v, ok := r.quoted(s, root); ok {
			return v
		}
	case text[r.i] == '{' && depth < maxDepth:
		return r.members(s, root, depth)
	case text[r.i] == '[' && depth < maxDepth:
		return r.items(s, root, depth)
	}
	return r.bare(s, root)
}

func (r *gemmaReader) str(s, root schema.Node) string {
	from := r.i + len(r.mark)
	end := r.p.index(r.mark, from)
	if end < 0 {
		r.cut = true
		raw := r.p.text[from:]
		r.i = len(r.p.text)
		return quote(raw)
	}
	r.i = end + len(r.mark)
	raw := r.p.text[from:end]
	if r.mark == "<escape>" {
		if isJSON(raw) {
			return strings.TrimSpace(raw)
		}
		return quote(raw)
	}
	if s != nil && r.p.opt.Dialect == VLLM {
		return r.p.bySchema(s, root, raw)
	}
	return quote(raw)
}

func (r *gemmaReader) bare(s, root schema.Node) string {
	from := r.i
	for r.i < len(r.p.text) && !strings.ContainsRune(",}]", rune(r.p.text[r.i])) && !r.p.at(r.close, r.i) {
		r.i++
	}
	if r.ours() {
		r.i = r.bareEnd(from, r.i)
	}
	raw := strings.TrimSpace(strings.TrimSuffix(r.p.text[from:r.i], r.mark))
	if r.i == len(r.p.text) {
		r.cut = true
	}
	if s != nil && r.p.opt.Dialect != SGLang {
		return r.p.bySchema(s, root, raw)
	}
	if r.p.opt.Dialect == VLLM {
		return quote(raw)
	}
	if word, ok := pyWords[raw]; ok && r.ours() {
		return word
	}
	if isJSON(raw) && (raw != "null" || r.ours()) {
		return raw
	}
	return quote(raw)
}

// step passes blanks and a comma; done says that the closer was read or the text ended.
func (r *gemmaReader) step(closer byte) (done bool) {
	r.i = r.p.skipSpace(r.i)
	text := r.p.text
	if r.i < len(text) && text[r.i] == ',' {
		r.i = r.p.skipSpace(r.i + 1)
	}
	if r.i >= len(text) || r.p.at(r.close, r.i) {
		r.cut = true
		return true
	}
	if text[r.i] == closer {
		r.i++
		return true
	}
	return false
}

func (r *gemmaReader) members(s, root schema.Node, depth int) string {
	var ps []pair
	for r.i++; !r.step('}'); {
		from := r.i
		key := ""
		if r.p.at(r.mark, r.i) {
			if e := r.p.index(r.mark, r.i+len(r.mark)); e >= 0 {
				key = r.p.text[r.i+len(r.mark) : e]
				r.i = r.p.skipSpace(e + len(r.mark))
			}
		} else {
			for r.i < len(r.p.text) && !strings.ContainsRune(":,}", rune(r.p.text[r.i])) && !(r.ours() && r.p.text[r.i] == '=') {
				r.i++
			}
			key = strings.TrimSpace(r.p.text[from:r.i])
		}
		if r.i >= len(r.p.text) {
			r.cut = true
			break
		}
		switch {
		case !r.ours():
		case r.p.text[r.i] == '=':
			r.doubt(Recovered)
		case r.p.text[r.i] != ':' || key == "" || strings.Contains(key, r.mark):
			r.doubt(Malformed) // a value without a key, or a key without a value
		}
		if r.p.text[r.i] != ':' && !(r.ours() && r.p.text[r.i] == '=') {
			if r.i == from {
				r.i++
			}
			continue
		}
		r.i++
		r.object = true
		v := r.value(s.Member(root, key), root, depth+1)
		if v != "" && v != `""` || !r.cut {
			ps = append(ps, pair{strings.Trim(key, `"`), v})
		}
		if r.cut {
			break
		}
	}
	return r.p.object(ps)
}

func (r *gemmaReader) items(s, root schema.Node, depth int) string {
	var out []string
	for r.i++; !r.step(']'); {
		from := r.i
		r.object = false
		v := r.value(s.Items(root), root, depth+1)
		if r.i == from {
			r.i++
			if r.ours() {
				r.doubt(Malformed)
			}
			continue
		}
		out = append(out, v)
		if r.cut {
			break
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

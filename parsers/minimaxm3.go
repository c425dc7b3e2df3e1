package parsers

import (
	"slices"
	"strings"
)

// MinimaxM3 is MiniMax M3: elements named after their keys, each tag behind a
// namespace token.
var MinimaxM3 = grammar{
	name:  "minimax_m3",
	think: think{open: "<mm:think>", close: "</mm:think>"}.until(m3 + "<tool_call>"),
	read:  readM3,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + m3 + "<tool_call>" + join("", calls, "", func(_ int, c Call) string {
			var b strings.Builder
			for _, a := range arguments(c) {
				b.WriteString(m3 + "<" + a.key + ">" + a.text + m3 + "</" + a.key + ">")
			}
			return m3 + `<invoke name="` + c.Name + `">` + b.String() + m3 + "</invoke>"
		}) + m3 + "</tool_call>"
	},
}.family()

const m3 = "]<]minimax[>["

// m3Tag reads the tag after the namespace token at i; end is 0 when there is none.
func m3Tag(p *parse, i int) (tag string, end int) {
	if !p.at(m3, i) {
		return "", 0
	}
	j := p.skipSpace(i + len(m3))
	if j >= len(p.text) || p.text[j] != '<' {
		return "", 0
	}
	e := strings.IndexByte(p.text[j:min(len(p.text), j+512)], '>')
	if e < 0 {
		return "", 0
	}
	return p.text[j+1 : j+e], j + e + 1
}

func readM3(p *parse) {
	at := p.pos
	for from := at; ; {
		i := p.index(m3, from)
		if i < 0 {
			break
		}
		t, end := m3Tag(p, i)
		if t != "tool_call" || p.opt.Dialect == Ours && !p.isMarker(i, end-i) {
			from = i + len(m3)
			continue
		}
		p.content(at, i)
		at = m3Block(p, i, end)
		from = at
	}
	p.content(at, len(p.text))
}

func m3Block(p *parse, i, at int) int {
	p.frame(i, at)
	for n := 0; ; n++ {
		k := p.skipSpace(at)
		t, end := m3Tag(p, k)
		switch {
		case t == "/tool_call":
			p.frame(at, end)
			return end
		case strings.HasPrefix(t, "invoke name="):
			name := strings.Trim(t[len("invoke name="):], `"'`)
			ps, next, st := m3Members(p, name, p.tools.params(name), end, "/invoke", 0)
			if st == Malformed || st == Truncated && p.k.NeedClose {
				p.refuse(k, next, strings.ToLower(string(st)), "call of %q: tags do not match", name)
			} else {
				p.call(k, next, name, p.object(ps), st)
			}
			at = next
		default:
			stop := len(p.text)
			if j := p.index(m3, k+1); j >= 0 {
				stop = j
			}
			if k == len(p.text) {
				return k
			}
			p.refuse(k, stop, "malformed", "text between the calls")
			at = stop
		}
	}
}

// m3Members reads elements until the closing tag.
func m3Members(p *parse, tool string, s schema, at int, closing string, depth int) ([]pair, int, State) {
	var ps []pair
	for {
		k := p.skipSpace(at)
		if k == len(p.text) {
			return ps, k, Truncated
		}
		t, end := m3Tag(p, k)
		switch {
		case end == 0 || depth > 64:
			j := p.index(m3, k+1)
			if j < 0 {
				return ps, len(p.text), Truncated
			}
			return ps, j, Malformed
		case t == closing:
			return ps, end, Complete
		case strings.HasPrefix(t, "/"):
			return ps, end, Malformed
		}
		v, next, st := m3Value(p, tool, t, s.member(p.tools.params(tool), t), end, depth)
		if st == Malformed {
			return ps, next, st
		}
		if st == Truncated && !strings.HasSuffix(v, "}") {
			return ps, next, st
		}
		ps = append(ps, pair{t, v})
		if st == Truncated {
			return ps, next, st
		}
		at = next
	}
}

// m3Value reads the value of element t: text, items, or an object.
func m3Value(p *parse, tool, t string, s schema, at, depth int) (string, int, State) {
	k := p.skipSpace(at)
	if inner, end := m3Tag(p, k); end > 0 && inner != "/"+t && !strings.HasPrefix(inner, "/") {
		if inner == "item" {
			return m3Items(p, tool, t, s, k, depth)
		}
		ps, next, st := m3Members(p, tool, s, k, "/"+t, depth+1)
		return p.object(ps), next, st
	}
	for j := p.index(m3, at); j >= 0; j = p.index(m3, j+1) {
		tag, end := m3Tag(p, j)
		if end == 0 {
			continue
		}
		if tag != "/"+t {
			return "", end, Malformed
		}
		raw := p.text[at:j]
		if s == nil {
			return quote(raw), end, Complete
		}
		root := p.tools.params(tool)
		if strings.TrimSpace(raw) == "" && p.opt.Dialect == Ours { // an element without children
			types := s.types(root)
			switch {
			case slices.Contains(types, "string"):
			case slices.Contains(types, "array"):
				return "[]", end, Complete
			case slices.Contains(types, "object"):
				return "{}", end, Complete
			}
		}
		return p.bySchema(s, root, raw), end, Complete
	}
	return "", len(p.text), Truncated
}

func m3Items(p *parse, tool, t string, s schema, at, depth int) (string, int, State) {
	var items []string
	for {
		k := p.skipSpace(at)
		tag, end := m3Tag(p, k)
		switch {
		case tag == "/"+t:
			return "[" + strings.Join(items, ", ") + "]", end, Complete
		case tag != "item" || depth > 64:
			return "", max(k, end), worse(Malformed, cutAt(k, len(p.text)))
		}
		v, next, st := m3Value(p, tool, "item", s.items(p.tools.params(tool)), end, depth+1)
		if st != Complete {
			return "", next, st
		}
		items = append(items, v)
		at = next
	}
}

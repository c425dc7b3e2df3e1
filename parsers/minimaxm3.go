package parsers

import (
	"slices"
	"strings"

	"hermes/internal/schema"
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
	if e < 0 || p.opt.Dialect == Ours && strings.Contains(p.text[j+1:j+e], "[") { // the next namespace token
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
func m3Members(p *parse, tool string, s schema.Node, at int, closing string, depth int) ([]pair, int, State) {
	var ps []pair
	whole := Complete
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
			return ps, end, whole
		case strings.HasPrefix(t, "/"):
			return ps, end, Malformed
		}
		v, next, st := m3Value(p, tool, t, s.Member(p.tools.params(tool), t), end, depth)
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
		whole = worse(whole, st)
		at = next
	}
}

// m3Value reads the value of element t: text, items, or an object.
func m3Value(p *parse, tool, t string, s schema.Node, at, depth int) (string, int, State) {
	k := p.skipSpace(at)
	if inner, end := m3Tag(p, k); end > 0 && inner != "/"+t && !strings.HasPrefix(inner, "/") && !m3Text(p, tool, s, inner) {
		if inner == "item" {
			return m3Items(p, tool, t, s, k, depth)
		}
		ps, next, st := m3Members(p, tool, s, k, "/"+t, depth+1)
		return p.object(ps), next, st
	}
	open, st := 1, Complete // elements t that are open; tags in a text make it doubtful
	for j := p.index(m3, at); j >= 0; j = p.index(m3, j+1) {
		tag, end := m3Tag(p, j)
		if end == 0 {
			continue
		}
		if tag != "/"+t && p.opt.Dialect != Ours {
			return "", end, Malformed
		}
		switch tag {
		case t:
			open++
		case "/" + t:
			open--
		}
		if open > 0 {
			st = Ambiguous
			continue
		}
		raw := p.text[at:j]
		if s == nil {
			return quote(raw), end, st
		}
		root := p.tools.params(tool)
		if strings.TrimSpace(raw) == "" && p.opt.Dialect == Ours { // an element without children
			types := s.Types(root)
			switch {
			case slices.Contains(types, "string"):
			case slices.Contains(types, "array"):
				return "[]", end, Complete
			case slices.Contains(types, "object"):
				return "{}", end, Complete
			}
		}
		return p.bySchema(s, root, raw), end, st
	}
	if first := p.index(m3, at); st != Complete { // the tags do not match
		_, end := m3Tag(p, first)
		return "", max(end, first+len(m3)), Malformed
	}
	return "", len(p.text), Truncated
}

// m3Text says that the tag inner, with which a value begins, is text: the value may be
// nothing else, or the tag is one of the family's own.
func m3Text(p *parse, tool string, s schema.Node, inner string) bool {
	if p.opt.Dialect != Ours {
		return false
	}
	return inner == "tool_call" || strings.HasPrefix(inner, "invoke name=") || s != nil && slices.Equal(s.Types(p.tools.params(tool)), []string{"string"})
}

func m3Items(p *parse, tool, t string, s schema.Node, at, depth int) (string, int, State) {
	var items []string
	whole := Complete
	for {
		k := p.skipSpace(at)
		tag, end := m3Tag(p, k)
		switch {
		case tag == "/"+t:
			return "[" + strings.Join(items, ", ") + "]", end, whole
		case tag != "item" || depth > 64:
			return "", max(k, end), worse(Malformed, cutAt(k, len(p.text)))
		}
		v, next, st := m3Value(p, tool, "item", s.Items(p.tools.params(tool)), end, depth+1)
		if st != Complete && st != Ambiguous {
			return "", next, st
		}
		whole = worse(whole, st)
		items = append(items, v)
		at = next
	}
}

package parsers

// Phi4Mini is Phi-4-mini: functools and a list.
var Phi4Mini = grammar{
	name: "phi4_mini_json",
	read: markedList{mark: "functools", keys: nameArguments}.read,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "functools" + jsonListText(calls, "arguments")
	},
}.family()

// markedList reads a JSON list after a marker.
type markedList struct {
	mark, end string
	keys      jsonKeys
}

func (m markedList) read(p *parse) {
	at := p.pos
	for from := at; ; {
		i := p.index(m.mark, from)
		if i < 0 {
			break
		}
		j := p.skipSpace(i + len(m.mark))
		end, err := p.jsonList(j, m.keys)
		if err != nil {
			if j < len(p.text) && p.text[j] == '[' && (p.opt.Dialect != Ours || p.isMarker(i, j+1-i)) {
				p.fault(i, len(p.text), "malformed", "list of calls: %v", err)
			}
			from = i + len(m.mark)
			continue
		}
		p.content(at, i)
		p.frame(i, j)
		at, from = end, end
		if p.at(m.end, p.skipSpace(at)) {
			at = p.skipSpace(at) + len(m.end)
			p.frame(end, at)
		}
	}
	p.content(at, len(p.text))
}

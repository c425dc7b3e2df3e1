package parsers

import "strings"

// MuseGlimmer writes messages to recipients: itself, the user, or a tool. Muse is Muse Spark,
// which also writes comments for the user, messages to its developer, which are no part of the
// answer, and messages without a recipient, which are for itself.
var (
	MuseGlimmer = museGrammar("muse_glimmer", map[string]SpanKind{"self": InReasoning, "user": InContent}).family()
	Muse        = museGrammar("muse", map[string]SpanKind{"self": InReasoning, "user": InContent, "commentary": InContent, "developer": InFault, "": InReasoning}).family()
)

// museGrammar says what the messages to each recipient are; those to others are calls.
func museGrammar(name string, to map[string]SpanKind) grammar {
	return grammar{
		name: name,
		read: func(p *parse) { readMuse(p, to) },
		format: func(content string, calls []Call) string {
			out := ""
			if content != "" {
				out = "to=user<|message|>" + content + "<|eom|>"
			}
			return join(out, calls, "", func(_ int, c Call) string {
				return "<|start|>assistant to=" + c.Name + "<|message|><atem:function_calls>\n" + xmlText("", "", `<atem:invoke name="%">`+"\n", "</atem:invoke>",
					`<atem:parameter name="%">`, "</atem:parameter>\n", "", []Call{c}) + "\n</atem:function_calls><|eom|>"
			})
		},
	}
}

var museCalls = xmlish{open: "<atem:function_calls>", close: "</atem:function_calls>", fn: "<atem:invoke name=", fnClose: "</atem:invoke>",
	par: "<atem:parameter name=", parClose: "</atem:parameter>", value: func(p *parse, tool, key, _, raw string) string {
		if (p.k.JSONValues || p.tools.params(tool).Prop(key) == nil) && isJSON(raw) {
			return strings.TrimSpace(raw)
		}
		return p.coerce(tool, key, raw)
	}}

func readMuse(p *parse, recipients map[string]SpanKind) {
	p.own = true
	const message = "<|message|>"
	for at := p.pos; at < len(p.text); {
		m := p.index(message, at)
		end, mark := p.nextOf([]string{"<|eom|>", "<|eot|>"}, museBody(p, max(at, m), m))
		if _, bare := recipients[""]; m < 0 || recipient(p.text[at:m]) == "" && !(bare && museBare(p.text[at:m])) {
			if t := strings.TrimSpace(p.text[at:end]); strings.HasPrefix(t, "<|start|>") || strings.HasPrefix(t, "to=") {
				p.frame(at, end)
				if p.opt.Dialect == Ours && t != "<|start|>assistant" {
					p.fault(at, end, "malformed_header", "a header without its message")
				}
			} else {
				p.content(at, end)
			}
			p.frame(end, end+len(mark))
			at = end + len(mark)
			continue
		}
		from := m + len(message)
		p.frame(at, from)
		switch kind := recipients[recipient(p.text[at:m])]; kind {
		case InReasoning:
			p.reason(from, end)
		case InContent:
			p.content(from, end)
		case InFault:
			p.fault(from, end, "dropped_text", "a message to %s", recipient(p.text[at:m]))
			p.seg(InFault, from, end)
		default:
			museMessage(p, from, end)
		}
		p.frame(end, end+len(mark))
		at = end + len(mark)
	}
}

// museBare reports whether a header names no recipient.
func museBare(header string) bool {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(header), "<|start|>assistant")) == ""
}

// museBody is where the end of the message may be whose text mark is at m: behind its calls,
// as a mark inside their values is text.
func museBody(p *parse, at, m int) int {
	if m < 0 || p.opt.Dialect != Ours {
		return at
	}
	j := p.skipSpace(m + len("<|message|>"))
	end := p.index(museCalls.close, j)
	if next := p.index("<|message|>", j); j >= len(p.text) || !p.at(museCalls.open, j) || end < 0 || next >= 0 && next < end {
		return at
	}
	for e := end; e >= 0; e = p.index(museCalls.close, e+1) {
		if museFramed(p, e+len(museCalls.close)) {
			return e
		}
	}
	return end
}

// museFramed says that the calls of a message may end before i: the message ends there, and
// another begins behind it or none.
func museFramed(p *parse, i int) bool {
	k := p.skipSpace(i)
	end, mark := p.nextOf([]string{"<|eom|>", "<|eot|>"}, k)
	if k < len(p.text) && (end != k || mark == "") {
		return false
	}
	k = p.skipSpace(end + len(mark))
	return k >= len(p.text) || p.at("<|start|>", k) || p.at("to=", k)
}

// museMessage reads the calls of one message and nothing beyond it.
func museMessage(p *parse, from, end int) {
	p.before(end, func(p *parse) {
		for at := from; at < end; {
			i := museCalls.start(p, at)
			if i < 0 {
				p.content(at, end)
				break
			}
			p.content(at, i)
			n := len(p.out.Calls)
			p.rename = func(name string) string { return undoubled(p, name) }
			at = museCalls.block(p, i)
			p.rename = nil
			for k := range p.out.Calls[n:] {
				p.out.Calls[n+k].Name = undoubled(p, p.out.Calls[n+k].Name)
			}
		}
	})
}

// undoubled is the name of NAME.NAME, which the model writes for tools without a group.
func undoubled(p *parse, name string) string {
	half := name[:len(name)/2]
	if half == "" || name != half+"."+half || p.tools.has(name) || !p.tools.has(half) {
		return name
	}
	return half
}

package parsers

// Granite is Granite 3: a list after a token, or alone.
var Granite = grammar{
	name: "granite",
	read: func(p *parse) {
		if p.opt.Dialect == VLLM {
			readGraniteEngine(p)
			return
		}
		if i := p.index("<|tool_call|>", p.pos); p.opt.Dialect == Ours && i > p.skipSpace(p.pos) {
			p.content(p.pos, i)
			p.pos = i
		} else if i := p.bareList(p.pos); p.opt.Dialect == Ours && i > p.skipSpace(p.pos) {
			p.content(p.pos, i)
			p.pos = i
		}
		at := p.skipSpace(p.pos)
		for _, m := range []string{"<|tool_call|>", "<tool_call>"} {
			if p.at(m, at) {
				at = p.skipSpace(at + len(m))
				break
			}
		}
		from := len(p.segs)
		end, err := p.jsonList(at, nameArguments)
		if err != nil {
			p.segs = p.segs[:from]
			if at > p.skipSpace(p.pos) {
				p.refuse(p.pos, len(p.text), "malformed", "list of calls: %v", err)
				return
			}
			p.content(p.pos, len(p.text))
			return
		}
		p.frame(p.pos, at)
		p.content(end, len(p.text))
	},
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return "<|tool_call|>" + jsonListText(calls, "arguments")
	},
}.family()

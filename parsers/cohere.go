package parsers

// Cohere3 and Cohere4 are the Command models.
var (
	Cohere3 = cohereGrammar("cohere_command3", "<|START_RESPONSE|>", "<|END_RESPONSE|>").family()
	Cohere4 = cohereGrammar("cohere_command4", "<|START_TEXT|>", "<|END_TEXT|>").family()
)

var cohereKeys = jsonKeys{[]string{"tool_name"}, []string{"parameters"}}

func cohereGrammar(name, open, close string) grammar {
	return grammar{
		name:  name,
		think: think{open: "<|START_THINKING|>", close: "<|END_THINKING|>"}.until("<|START_ACTION|>"),
		read: func(p *parse) {
			t := tagged{open: "<|START_ACTION|>", close: "<|END_ACTION|>", keys: cohereKeys}
			if i := p.index(open, p.pos); i >= 0 {
				if a := p.index(t.open, p.pos); p.opt.Dialect == Ours && a >= 0 && a < i {
					p.before(i, t.read) // the calls come first
				} else {
					p.content(p.pos, i)
				}
				end := nextOr(p, close, i)
				p.frame(i, i+len(open))
				p.content(i+len(open), end)
				p.frame(end, min(end+len(close), len(p.text)))
				p.pos, p.own = min(end+len(close), len(p.text)), true
			}
			t.read(p)
		},
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return open + content + close
			}
			if content != "" {
				content = open + content + close
			}
			return content + "<|START_ACTION|>[" + join("", calls, ", ", func(_ int, c Call) string {
				return `{"tool_name": ` + quote(c.Name) + `, "parameters": ` + c.Arguments + "}"
			}) + "]<|END_ACTION|>"
		},
	}
}

package parsers

// InternLM is InternLM 2.5 and Intern-S1.
var InternLM = grammar{
	name:  "internlm",
	think: plainThink.until("<|action_start|>"),
	read: func(p *parse) {
		open := "<|action_start|><|plugin|>"
		if p.index(open, p.pos) < 0 {
			open = "<|action_start|> <|plugin|>"
		}
		tagged{open: open, close: "<|action_end|>", keys: nameParameters}.read(p)
	},
	format: func(content string, calls []Call) string {
		return join(content, calls, "\n", func(_ int, c Call) string {
			return "<|action_start|><|plugin|>\n" + jsonText(c, "parameters") + "<|action_end|>"
		})
	},
}.family()

package parsers

// Ernie45 is ERNIE-4.5 thinking: the calls of Hermes, the answer in <response>.
var Ernie45 = grammar{
	name:  "ernie45",
	think: plainThink.until("<tool_call>"),
	read: func(p *parse) {
		const open, close = "<response>", "</response>"
		i := p.index(open, p.pos)
		if t := p.index("<tool_call>", p.pos); i >= 0 && (t < 0 || i < t) {
			p.content(p.pos, i)
			from := i + len(open)
			if p.at("\n", from) {
				from++
			}
			p.frame(i, from)
			end := p.index(close, from)
			stop := end + len(close)
			if end < 0 {
				end, stop = nextOr(p, "<tool_call>", from), nextOr(p, "<tool_call>", from)
			}
			body := end
			if body > from && p.text[body-1] == '\n' {
				body--
			}
			p.content(from, body)
			p.frame(body, stop)
			p.pos, p.own = stop, true
		}
		tagged{open: "<tool_call>", close: "</tool_call>", keys: nameArguments}.read(p)
	},
	format: hermesText,
}.family()

package parsers

// Minimax is MiniMax-M1: one object a line between tags.
var Minimax = grammar{
	name:  "minimax",
	think: plainThink.until("<tool_calls>"),
	read:  readMinimax,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<tool_calls>\n" + join("", calls, "\n", func(_ int, c Call) string { return jsonText(c, "arguments") }) + "\n</tool_calls>"
	},
}.family()

var minimaxCalls = tagged{open: "<tool_calls>", close: "</tool_calls>", keys: nameArguments, lines: true}

// readMinimax leaves, as vLLM does, think blocks in the content and their calls unread.
func readMinimax(p *parse) {
	if p.opt.Dialect != VLLM {
		minimaxCalls.read(p)
		return
	}
	p.outside(plainThink, func(at int) int { return p.index(minimaxCalls.open, at) }, func(i int) int { return minimaxCalls.block(p, i) })
}

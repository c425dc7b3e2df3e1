package parsers

// Minimax is MiniMax-M1: one object a line between tags.
var Minimax = grammar{
	name:  "minimax",
	think: plainThink.until("<tool_calls>"),
	read:  tagged{open: "<tool_calls>", close: "</tool_calls>", keys: nameArguments, lines: true}.read,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<tool_calls>\n" + join("", calls, "\n", func(_ int, c Call) string { return jsonText(c, "arguments") }) + "\n</tool_calls>"
	},
}.family()

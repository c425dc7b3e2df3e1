package parsers

// MinimaxM2 is MiniMax M2, M2.1 and M2.5.
var MinimaxM2 = grammar{
	name:  "minimax_m2",
	think: plainThink.until("<minimax:tool_call>"),
	read: xmlish{open: "<minimax:tool_call>", close: "</minimax:tool_call>", fn: "<invoke name=", fnClose: "</invoke>",
		par: "<parameter name=", parClose: "</parameter>", needOpen: true,
		others: [][2]string{{"<tool_calls>", "</tool_calls>"}, {"<function_calls>", "</function_calls>"}, {"<tool_call>", "</tool_call>"}}}.read,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<minimax:tool_call>\n" + xmlText("", "", `<invoke name="%">`+"\n", "</invoke>", `<parameter name="%">`, "</parameter>\n", "", calls) + "\n</minimax:tool_call>"
	},
}.family()

package parsers

// MiMo is MiMo: the calls of Qwen3-Coder with values that are taken as they are between their tags,
// newlines at their ends included.
var MiMo = grammar{
	name:  "mimo",
	think: plainThink.until("<tool_call>", "<function="),
	read: xmlish{open: "<tool_call>", close: "</tool_call>", fn: "<function=", fnClose: "</function>",
		par: "<parameter=", parClose: "</parameter>"}.read,
	format: func(content string, calls []Call) string {
		return content + xmlText("<tool_call>\n", "\n</tool_call>", "<function=%>\n", "</function>", "<parameter=%>", "</parameter>\n", "", calls)
	},
}.family()

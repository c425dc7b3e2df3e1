package parsers

// SeedOSS is Seed-OSS: the calls of Qwen3-Coder in tags of its own.
var SeedOSS = grammar{
	name:  "seed_oss",
	think: think{open: "<seed:think>", close: "</seed:think>"}.until("<seed:tool_call>"),
	read: xmlish{open: "<seed:tool_call>", close: "</seed:tool_call>", fn: "<function=", fnClose: "</function>",
		par: "<parameter=", parClose: "</parameter>", newlines: true}.read,
	format: func(content string, calls []Call) string {
		return content + xmlText("<seed:tool_call>\n", "\n</seed:tool_call>", "<function=%>\n", "</function>", "<parameter=%>", "</parameter>\n", "", calls)
	},
}.family()

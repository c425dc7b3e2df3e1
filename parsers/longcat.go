package parsers

// Longcat is LongCat-Flash: as Hermes, with its own tags.
var Longcat = grammar{
	name:  "longcat",
	think: think{open: "<longcat_think>", close: "</longcat_think>"}.until("<longcat_tool_call>"),
	read:  tagged{open: "<longcat_tool_call>", close: "</longcat_tool_call>", keys: nameArguments}.read,
	format: func(content string, calls []Call) string {
		return join(content, calls, "\n", func(_ int, c Call) string {
			return "<longcat_tool_call>\n" + jsonText(c, "arguments") + "\n</longcat_tool_call>"
		})
	},
}.family()

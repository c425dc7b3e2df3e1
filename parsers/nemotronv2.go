package parsers

// NemotronV2 is Nemotron Nano 2: one list of calls between tags.
var NemotronV2 = grammar{
	name:  "nemotron_nano_v2",
	think: plainThink.until("<TOOLCALL>"),
	read:  tagged{open: "<TOOLCALL>", close: "</TOOLCALL>", keys: nameArguments}.read,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<TOOLCALL>" + jsonListText(calls, "arguments") + "</TOOLCALL>"
	},
}.family()

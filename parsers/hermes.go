package parsers

// Hermes is the ChatML form of Hermes 2–4, Qwen 2.5 and 3 and QwQ: a JSON object
// between <tool_call> tags.
var Hermes = hermesGrammar("hermes").family()

func hermesGrammar(name string) grammar {
	return grammar{
		name:   name,
		think:  plainThink.until("<tool_call>"),
		read:   tagged{open: "<tool_call>", close: "</tool_call>", keys: nameArguments}.read,
		format: hermesText,
	}
}

func hermesText(content string, calls []Call) string {
	if content != "" && len(calls) > 0 {
		content += "\n"
	}
	return join(content, calls, "\n", func(_ int, c Call) string {
		return "<tool_call>\n" + jsonText(c, "arguments") + "\n</tool_call>"
	})
}

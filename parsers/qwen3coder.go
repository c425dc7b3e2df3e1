package parsers

// Qwen3Coder is Qwen3-Coder, Qwen3.5 and later, MiMo and Nemotron 3.
var Qwen3Coder = qwenXML("qwen3_coder").family()

func qwenXML(name string) grammar {
	return grammar{
		name:  name,
		think: plainThink.until("<tool_call>", "<function="),
		read: xmlish{open: "<tool_call>", close: "</tool_call>", fn: "<function=", fnClose: "</function>",
			par: "<parameter=", parClose: "</parameter>", newlines: true}.read,
		format: func(content string, calls []Call) string {
			return content + xmlText("<tool_call>\n", "\n</tool_call>", "<function=%>\n", "</function>", "<parameter=%>", "</parameter>\n", "\n", calls)
		},
	}
}

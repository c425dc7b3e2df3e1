package parsers

// Jamba is AI21 Jamba 1.5, HunyuanA13B is Hunyuan-A13B: one list between tags.
var (
	Jamba       = listGrammar("jamba", think{}).family()
	HunyuanA13B = listGrammar("hunyuan_a13b", plainThink.until("<tool_calls>")).family()
)

func listGrammar(name string, t think) grammar {
	return grammar{
		name:  name,
		think: t,
		read:  tagged{open: "<tool_calls>", close: "</tool_calls>", keys: nameArguments, one: true}.read,
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return content
			}
			return content + "<tool_calls>" + jsonListText(calls, "arguments") + "</tool_calls>"
		},
	}
}

package parsers

import "strings"

// GLM45 is GLM-4.5 and 4.6, GLM47 is GLM-4.7 and 5, Ling3 is Ling 3.
var (
	GLM45 = glmGrammar("glm45", "\n").family()
	GLM47 = glmGrammar("glm47", "").family()
	Ling3 = glmGrammar("ling3", "").family()
)

func glmGrammar(name, nl string) grammar {
	return grammar{
		name:  name,
		think: plainThink.until("<tool_call>"),
		read: keyValue{open: "<tool_call>", close: "</tool_call>", key: "<arg_key>", keyClose: "</arg_key>",
			val: "<arg_value>", valClose: "</arg_value>"}.read,
		format: func(content string, calls []Call) string {
			return join(content, calls, "\n", func(_ int, c Call) string { return keyValueText("<tool_call>", "</tool_call>", nl, c) })
		},
	}
}

func keyValueText(open, close, nl string, c Call) string {
	var b strings.Builder
	b.WriteString(open + c.Name + nl)
	for _, a := range arguments(c) {
		b.WriteString("<arg_key>" + a.key + "</arg_key>" + nl + "<arg_value>" + a.text + "</arg_value>" + nl)
	}
	b.WriteString(close)
	return b.String()
}

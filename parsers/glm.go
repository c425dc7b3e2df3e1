package parsers

import "strings"

// GLM45 is GLM-4.5 and 4.6, GLM47 is GLM-4.7 and 5, Ling3 is Ling 3.
var (
	GLM45 = glmGrammar("glm45", "tool_call", "\n").family()
	GLM47 = glmGrammar("glm47", "tool_call", "").family()
	Ling3 = glmGrammar("ling3", "tool_call", "").family()
)

// glmGrammar is the calls of GLM in the tag of that name; nl is behind the name of a tool
// and every part of an argument.
func glmGrammar(name, tag, nl string) grammar {
	g := keyValue{open: "<" + tag + ">", close: "</" + tag + ">", key: "<arg_key>", keyClose: "</arg_key>", val: "<arg_value>", valClose: "</arg_value>", strict: tag == "iquest_tool_call"}
	return grammar{
		name:  name,
		think: plainThink.until(g.open),
		read:  g.read,
		format: func(content string, calls []Call) string {
			return join(content, calls, "\n", func(_ int, c Call) string { return keyValueText(g.open, g.close, nl, c) })
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

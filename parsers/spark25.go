package parsers

// Spark25 is Spark 2.5: the calls of GLM with a newline behind the name of the tool.
var Spark25 = spark25().family()

func spark25() grammar {
	g := glmGrammar("spark25", "tool_call", "")
	g.format = func(content string, calls []Call) string {
		return join(content, calls, "\n", func(_ int, c Call) string {
			return keyValueText("<tool_call>", "</tool_call>", "", Call{Name: c.Name + "\n", Arguments: c.Arguments})
		})
	}
	return g
}

package parsers

// Granite20bFC is Granite-20B-FunctionCalling: an object after each marker.
var Granite20bFC = grammar{
	name: "granite-20b-fc",
	read: tagged{open: "<function_call>", keys: nameArguments}.read,
	format: func(content string, calls []Call) string {
		return join(content, calls, " ", func(_ int, c Call) string { return "<function_call> " + jsonText(c, "arguments") })
	},
}.family()

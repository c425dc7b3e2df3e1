package parsers

// K2Horizon is K2-Horizon. It writes the arguments of a call as keys and values, with or
// without their types, or as one object: each is read, whatever the template asked for.
var K2Horizon = grammar{
	name:  "k2_horizon",
	think: k2Think,
	read:  k2Calls.read,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + k2Calls.outer + join("", calls, "", func(_ int, c Call) string {
			out := k2Calls.open + c.Name
			for _, a := range arguments(c) {
				out += k2Calls.key + a.key + k2Calls.keyClose + k2Calls.val + a.text + k2Calls.valClose
			}
			return out + k2Calls.close
		}) + k2Calls.outerClose
	},
}.family()

var k2Calls = keyValue{outer: "<ifm|tool_calls>", outerClose: "</ifm|tool_calls>", open: "<ifm|tool_call>", close: "</ifm|tool_call>",
	key: "<ifm|arg_key>", keyClose: "</ifm|arg_key>", kind: "<ifm|arg_type>", kindClose: "</ifm|arg_type>",
	val: "<ifm|arg_value>", valClose: "</ifm|arg_value>", json: true, bare: true}

// k2Think has a pair of tags for each effort.
var k2Think = think{open: "<ifm|think>", close: "</ifm|think>", more: [][2]string{{"<ifm|think_fast>", "</ifm|think_fast>"},
	{"<ifm|think_faster>", "</ifm|think_faster>"}}}.until("<ifm|tool_calls>", "<ifm|tool_call>")

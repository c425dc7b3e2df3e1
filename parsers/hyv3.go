package parsers

// HyV3 is Hunyuan 3. Its tokens may carry a suffix: <tool_calls:abc>.
var HyV3 = grammar{
	name:  "hy_v3",
	think: plainThink.until("<tool_calls>"),
	read: func(p *parse) {
		s := hySuffix(p)
		p.suffix = s
		keyValue{outer: "<tool_calls" + s + ">", outerClose: "</tool_calls" + s + ">", open: "<tool_call" + s + ">", close: "</tool_call" + s + ">",
			sep: "<tool_sep" + s + ">", key: "<arg_key" + s + ">", keyClose: "</arg_key" + s + ">",
			val: "<arg_value" + s + ">", valClose: "</arg_value" + s + ">"}.read(p)
	},
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<tool_calls>" + join("", calls, "", func(_ int, c Call) string {
			return keyValueText("<tool_call>", "</tool_call>", "", Call{Name: c.Name + "<tool_sep>", Arguments: c.Arguments})
		}) + "</tool_calls>"
	},
}.family()

// hySuffix finds the suffix of the family's tokens in the text.
func hySuffix(p *parse) string {
	i := p.index("<tool_calls:", p.pos)
	if i < 0 || p.index("<tool_calls>", p.pos) >= 0 && p.index("<tool_calls>", p.pos) < i {
		return ""
	}
	i += len("<tool_calls")
	j := i + 1
	for j < len(p.text) && isWord(p.text[j]) {
		j++
	}
	if j < len(p.text) && p.text[j] == '>' {
		return p.text[i:j]
	}
	return ""
}

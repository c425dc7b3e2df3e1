package parsers

// HyV3 is Hunyuan 3. Its tokens may carry a suffix: <tool_calls:abc>.
var HyV3 = hunyuan("hy_v3", "tool_sep").family()

// hunyuan is the calls of Hunyuan; sep is the name of the mark behind the name of a tool.
func hunyuan(name, sep string) grammar {
	mark := func(tag, suffix string) string {
		if tag == "" {
			return ""
		}
		return "<" + tag + suffix + ">"
	}
	return grammar{
		name:  name,
		think: hyThink,
		read: func(p *parse) {
			s := hySuffix(p)
			p.suffix = s
			keyValue{outer: "<tool_calls" + s + ">", outerClose: "</tool_calls" + s + ">", open: "<tool_call" + s + ">", close: "</tool_call" + s + ">",
				sep: mark(sep, s), key: "<arg_key" + s + ">", keyClose: "</arg_key" + s + ">",
				val: "<arg_value" + s + ">", valClose: "</arg_value" + s + ">", bare: true}.read(p)
		},
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return content
			}
			return content + "<tool_calls>" + join("", calls, "", func(_ int, c Call) string {
				return keyValueText("<tool_call>", "</tool_call>", "", Call{Name: c.Name + mark(sep, ""), Arguments: c.Arguments})
			}) + "</tool_calls>"
		},
	}
}

var hyThink = think{open: "<think>", close: "</think>", suffixed: true}.until("<tool_calls>", "<tool_calls:")

// hySuffix finds the suffix of the family's tokens in the text: that of the first that has one.
func hySuffix(p *parse) string {
	best, suffix := len(p.text), ""
	for _, m := range []string{"<tool_calls", "<tool_call", "</think", "<think"} {
		i := p.index(m+":", 0)
		if plain := p.index(m+">", 0); i < 0 || i >= best || plain >= 0 && plain < i {
			continue
		}
		from := i + len(m)
		j := from + 1
		for j < len(p.text) && isWord(p.text[j]) {
			j++
		}
		if j < len(p.text) && p.text[j] == '>' {
			best, suffix = i, p.text[from:j]
		}
	}
	return suffix
}

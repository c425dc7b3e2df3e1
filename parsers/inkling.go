package parsers

// Inkling writes typed blocks.
var Inkling = grammar{
	name: "inkling",
	read: readInkling,
	format: func(content string, calls []Call) string {
		out := ""
		if content != "" {
			out = "<|content_text|>" + content + "<|end_message|>"
		}
		return join(out, calls, "", func(_ int, c Call) string {
			return "<|message_model|><|content_invoke_tool_json|>" + jsonText(c, "args") + "<|end_message|>"
		})
	},
}.family()

var inklingKeys = jsonKeys{[]string{"name"}, []string{"args", "arguments"}}

var inklingMarks = []string{"<|content_text|>", "<|content_thinking|>", "<|content_invoke_tool_json|>", "<|content_invoke_tool_text|>",
	"<|content_tool_error|>", "<|end_message|>", "<|content_model_end_sampling|>", "<|message_model|>"}

// nextOf finds the first of several markers at or after i.
func (p *parse) nextOf(marks []string, i int) (at int, mark string) {
	at = len(p.text)
	for _, m := range marks {
		if j := p.index(m, i); j >= 0 && (j < at || j == at && len(m) > len(mark)) {
			at, mark = j, m
		}
	}
	return at, mark
}

func readInkling(p *parse) {
	p.own = true
	kind := ""
	if p.opt.InReasoning {
		kind = "<|content_thinking|>"
	}
	for at := p.pos; at < len(p.text); {
		end, mark := p.nextOf(inklingMarks, at)
		if kind == "<|content_invoke_tool_json|>" {
			at = inklingCall(p, at)
			kind = ""
			continue
		}
		switch {
		case kind == "<|content_thinking|>":
			p.reason(at, end)
		case mark == "<|content_invoke_tool_json|>" || mark == "<|content_invoke_tool_text|>" && kind == "":
			p.frame(at, end) // the recipient, repeated inside
		default:
			p.content(at, end)
		}
		p.frame(end, end+len(mark))
		at, kind = end+len(mark), mark
		if mark == "<|end_message|>" || mark == "<|message_model|>" {
			kind = ""
		}
	}
}

func inklingCall(p *parse, at int) int {
	j := p.skipSpace(at)
	c := p.jsonCall(j, inklingKeys)
	if c.err != nil && p.opt.Dialect == VLLM && j < len(p.text) && p.text[j] == '{' {
		end, _ := p.nextOf([]string{"<|end_message|>", "<|content_model_end_sampling|>", "<|message_model|>"}, at)
		_, closed := engineObject(p.text[:end], j)
		p.engineCall(at, j, end, "args", closed)
		return end
	}
	if c.err != nil {
		end, _ := p.nextOf([]string{"<|end_message|>", "<|content_model_end_sampling|>", "<|message_model|>"}, at)
		if name, args, ok := cutCall(p.text[j:]); ok && c.err == errCut && end == len(p.text) {
			p.call(at, end, name, args, Truncated)
			return end
		}
		kind := "malformed"
		if c.err == errCut && end == len(p.text) {
			kind = "truncated"
		}
		p.refuse(at, end, kind, "call object: %s", c.why)
		return end
	}
	p.call(at, c.end, c.name, c.args, c.state)
	return c.end
}

// cutCall takes name and written arguments out of an object that the end cut.
func cutCall(text string) (name, args string, ok bool) {
	whole, ok := closeJSON(text)
	if !ok {
		return "", "", false
	}
	ms, _, err := scanner{text: whole}.object(0)
	n, has := lookup(ms, "name")
	if err != nil || !has {
		return "", "", false
	}
	name, ok = unquote(whole[n.a:n.b])
	if a, has := lookup(ms, "args"); has {
		args = whole[a.a:a.b]
	}
	return name, args, ok && name != ""
}

package parsers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Gigachat3 is GigaChat 3: one call a turn after a marker.
var Gigachat3 = grammar{
	name: "gigachat3",
	read: readGigachat,
	format: func(content string, calls []Call) string {
		return join(content, calls, "", func(_ int, c Call) string { return "<|function_call|>" + jsonText(c, "arguments") })
	},
}.family()

func readGigachat(p *parse) {
	const old, sep = "function call", "<|message_sep|>"
	p.raw = true
	mark := "<|function_call|>"
	i := p.index(mark, p.pos)
	if i < 0 {
		mark = old
		i = p.index(mark, p.pos)
		if r := i + len(mark); i >= 0 && p.at("<|role_sep|>", r) {
			mark += "<|role_sep|>"
		} else if i >= 0 && (!p.at("{", r) || p.opt.Dialect != VLLM) {
			i = -1
		}
	}
	if i < 0 {
		p.content(p.pos, len(p.text))
		return
	}
	before := i
	if s := p.index(sep, p.pos); s >= 0 && s < i {
		before = s
	}
	p.content(p.pos, before)
	j := p.skipSpace(i + len(mark))
	c := p.jsonCall(j, nameArguments)
	if c.err != nil || c.state == Malformed {
		p.refuse(before, len(p.text), "malformed", "call object: %v %s", c.err, c.why)
		return
	}
	args, state := c.args, c.state
	if !json.Valid([]byte(args)) {
		args, state = escapeControls(args), worse(state, Recovered)
	}
	p.frame(before, j)
	p.call(j, c.end, c.name, args, state)
	end := p.skipSpace(c.end)
	if p.at("</s>", end) {
		p.frame(end, end+len("</s>"))
		end += len("</s>")
	}
	p.content(end, len(p.text))
}

// escapeControls spells the control characters inside the strings of lenient JSON as JSON
// wants them.
func escapeControls(s string) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			inside = !inside
		case inside && c == '\\' && i+1 < len(s):
			b.WriteByte(c)
			i++
			c = s[i]
		case inside && c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

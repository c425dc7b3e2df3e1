package parsers

import (
	"fmt"
	"strings"
)

// KimiK2 is Kimi K2, K2-Thinking and K2.5. A call's id is its only name.
var KimiK2 = grammar{
	name:  "kimi_k2",
	think: plainThink.until("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>").cut(" \n\t"),
	read:  readKimi,
	id:    kimiID,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<|tool_calls_section_begin|>" + join("", calls, "", func(i int, c Call) string {
			id := c.ID
			if !strings.Contains(id, ":") {
				id = fmt.Sprintf("functions.%s:%d", c.Name, i)
			}
			return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + c.Arguments + "<|tool_call_end|>"
		}) + "<|tool_calls_section_end|>"
	},
}.family()

var kimiMarks = frameMarks{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"}

const kimiArgs = "<|tool_call_argument_begin|>"

func readKimi(p *parse) {
	m := kimiMarks
	if p.index(m.open, p.pos) < 0 && p.opt.Dialect != VLLM && p.opt.Dialect != SGLang {
		m.open, m.close = "<|tool_call_section_begin|>", "<|tool_call_section_end|>"
	}
	frames(p, m, func(a, b, end int, closed bool) bool {
		s := p.index(kimiArgs, a)
		if s < 0 || s > b {
			return false
		}
		id := strings.TrimSpace(p.text[a:s])
		args := strings.TrimSpace(p.text[s+len(kimiArgs) : b])
		name := kimiName(p, id, args)
		n := len(p.out.Calls)
		p.also = id
		if !p.rawCall(a, b, name, args, closed) {
			return false
		}
		if len(p.out.Calls) > n {
			p.out.Calls[n].ID = id
		}
		return true
	})
}

// kimiName takes the name out of functions.NAME:IDX.
func kimiName(p *parse, id, args string) string {
	name, index := id, ""
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		name, index = id[:i], id[i+1:]
	}
	if index == "" && isInteger(id) {
		return kimiGuess(p, args)
	}
	if !isInteger(index) {
		if p.opt.Dialect == Ours { // functionsNAME5
			name = strings.TrimLeft(strings.TrimRight(strings.TrimPrefix(id, "functions"), "0123456789"), ".:")
			if p.tools.has(name) {
				p.odd = true
				return name
			}
		}
		return ""
	}
	name = strings.TrimPrefix(name, "functions.")
	if p.opt.Dialect == Upstream {
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	return name
}

// kimiGuess finds the tool of a call that carries only a counter: the only tool, or
// the one whose declared keys fit best.
func kimiGuess(p *parse, args string) string {
	if p.opt.Dialect != SGLang && p.opt.Dialect != Ours {
		return ""
	}
	specs := p.tools.specs
	if len(specs) == 1 {
		return specs[0].Name
	}
	best, most := "", 0
	for _, s := range specs {
		props, n := p.tools.params(s.Name).Sub("properties"), 0
		for _, a := range arguments(Call{Arguments: args}) {
			if props[a.key] != nil {
				n++
			}
		}
		if n > most {
			best, most = s.Name, n
		}
	}
	return best
}

func kimiID(p *parse, i int, c *Call) {
	if c.ID == "" {
		c.ID = fmt.Sprintf("functions.%s:%d", c.Name, p.opt.CallsBefore+i)
	}
}

package parsers

import "strings"

// XLAM is Salesforce xLAM 2: a list that may stand alone, in a fence, after a marker,
// in tags, or after the thinking.
var XLAM = grammar{
	name:  "xlam",
	think: plainThink,
	read:  readXLAM,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "[TOOL_CALLS]" + jsonListText(calls, "arguments")
	},
}.family()

func readXLAM(p *parse) {
	for _, m := range []struct{ open, close string }{{"```json", "```"}, {"```", "```"}, {"[TOOL_CALLS]", ""}, {"<tool_call>", "</tool_call>"}, {"</think>", ""}, {"", ""}} {
		i, j := p.pos, p.skipSpace(p.pos)
		if m.open != "" {
			i = p.index(m.open, p.pos)
			if i < 0 {
				continue
			}
			j = p.skipSpace(i + len(m.open))
		}
		end, err := p.xlamList(j)
		if err != nil && p.k.Repair && m.open != "" && p.at(`[{"name"`, j) {
			end, err = p.jsonList(j, nameArguments)
		}
		if err != nil {
			continue
		}
		if m.open == "</think>" {
			i += len(m.open)
		}
		p.content(p.pos, i)
		p.frame(i, j)
		if k := p.skipSpace(end); p.at(m.close, k) {
			p.frame(end, k+len(m.close))
			end = k + len(m.close)
		}
		p.content(end, len(p.text))
		return
	}
	if i := p.bareList(p.pos); p.opt.Dialect == Ours && i >= 0 {
		if end, err := p.xlamList(i); err == nil {
			p.content(p.pos, i)
			p.content(end, len(p.text))
			return
		}
	}
	if strings.HasPrefix(strings.TrimSpace(p.rest()), "[{") {
		p.fault(p.pos, len(p.text), "malformed", "a list that cannot be read")
	}
	p.content(p.pos, len(p.text))
}

// bareList finds a list behind text that begins a line and names a declared tool, or -1.
func (p *parse) bareList(at int) int {
	if !p.tools.known() {
		return -1
	}
	for i := p.index("[", at); i >= 0; i = p.index("[", i+1) {
		if j := p.skipSpace(i + 1); j < len(p.text) && p.text[j] == '{' && p.prose().lineStart(i) && p.tools.namedIn(p.text[i:min(len(p.text), i+512)]) && !p.prose().fenced(i) {
			return i
		}
	}
	return -1
}

// xlamList reads a list only when every item is a call.
func (p *parse) xlamList(j int) (int, error) {
	items, end, err := scanner{text: p.text}.list(j)
	if err != nil || len(items) == 0 {
		return end, errBad
	}
	for _, it := range items {
		if c := p.jsonCall(it.a, nameArguments); c.err != nil {
			return end, errBad
		}
	}
	return p.jsonList(j, nameArguments)
}

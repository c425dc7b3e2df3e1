package parsers

import "strings"

// Step3 is Step 3: steptml calls in token frames.
var Step3 = grammar{
	name:  "step3",
	think: plainThink.until("<｜tool_calls_begin｜>"),
	read:  readStep3,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<｜tool_calls_begin｜>" + strings.ReplaceAll(xmlText("<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>", `<steptml:invoke name="%">`, "</steptml:invoke>",
			`<steptml:parameter name="%">`, "</steptml:parameter>", "", calls), "<｜tool_call_end｜>\n", "<｜tool_call_end｜>") + "<｜tool_calls_end｜>"
	},
}.family()

func readStep3(p *parse) {
	x := xmlish{close: "<｜tool_call_end｜>", fn: "<steptml:invoke name=", fnClose: "</steptml:invoke>",
		par: "<steptml:parameter name=", parClose: "</steptml:parameter>"}
	x.value = func(p *parse, tool, key, _, raw string) string {
		if p.opt.Dialect != Ours {
			raw = strings.TrimSpace(raw)
		}
		return p.coerce(tool, key, raw)
	}
	frames(p, frameMarks{"<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_call_begin｜>", "<｜tool_call_end｜>"}, func(a, b, end int, closed bool) bool {
		const head = "function<｜tool_sep｜>"
		f := p.index(x.fn, a)
		if s := p.skipSpace(a); f < 0 || f >= b || p.opt.Dialect != VLLM && !p.at(head, s) {
			return false
		}
		x.function(p, a, f)
		return true
	})
}

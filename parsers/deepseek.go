package parsers

import (
	"encoding/json"
	"slices"
	"strings"
)

// DeepSeekV3 is V3-0324 and R1-0528, DeepSeekV31 is V3.1 and V3.2-Exp, DeepSeekV32
// is V3.2, DeepSeekV4 is V4 and DeepSeekV41 is V4.1, which writes a blank in every tag.
var (
	DeepSeekV3  = deepseekGrammar("deepseek_v3", readFenced, "function<｜tool▁sep｜>", "\n```json\n", "\n```").family()
	DeepSeekV31 = deepseekGrammar("deepseek_v3_1", readSeparated, "", "<｜tool▁sep｜>", "").family()
	DeepSeekV32 = dsml("deepseek_v32", "｜DSML｜", "function_calls", "tool_calls", "_tool_calls").family()
	DeepSeekV4  = dsml("deepseek_v4", "｜DSML｜", "tool_calls", "function_calls", "_tool_calls").family()
	DeepSeekV41 = dsml("deepseek_v41", "｜DSML｜ ", "calls", "tool_calls", "function_calls").family()
)

var deepseekMarks = frameMarks{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"}

const deepseekSep = "<｜tool▁sep｜>"

func deepseekGrammar(name string, one func(p *parse, a, b int, closed bool) bool, before, between, after string) grammar {
	return grammar{
		name:  name,
		think: plainThink.until("<｜tool▁calls▁begin｜>"),
		read: func(p *parse) {
			frames(p, deepseekMarks, func(a, b, _ int, closed bool) bool { return one(p, a, b, closed) })
		},
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return content
			}
			return content + deepseekMarks.open + join("", calls, "", func(_ int, c Call) string {
				return deepseekMarks.call + before + c.Name + between + c.Arguments + after + deepseekMarks.end
			}) + deepseekMarks.close
		},
	}
}

// readFenced reads function SEP NAME, a newline and fenced JSON.
func readFenced(p *parse, a, b int, closed bool) bool {
	s := p.index(deepseekSep, a)
	if s < 0 || s > b {
		return false
	}
	text := p.text[s+len(deepseekSep) : b]
	name, rest, ok := strings.Cut(text, "\n")
	if !ok {
		return false
	}
	args := strings.TrimSpace(rest)
	fenced := strings.HasPrefix(args, "```")
	args = strings.TrimPrefix(strings.TrimPrefix(args, "```"), "json")
	if fenced && !strings.HasSuffix(args, "```") && !closed && !isJSON(args) {
		return p.rawCall(a, b, strings.TrimSpace(name), strings.TrimSpace(args), false)
	}
	args = strings.TrimSpace(strings.TrimSuffix(args, "```"))
	return p.rawCall(a, b, strings.TrimSpace(name), args, closed)
}

// readSeparated reads NAME SEP JSON.
func readSeparated(p *parse, a, b int, closed bool) bool {
	s := p.index(deepseekSep, a)
	if s < 0 || s > b {
		return false
	}
	return p.rawCall(a, b, strings.TrimSpace(p.text[a:s]), strings.TrimSpace(p.text[s+len(deepseekSep):b]), closed)
}

// rawCall adds a call whose arguments stand verbatim in the text; what is no JSON is
// kept and marked.
func (p *parse) rawCall(a, b int, name, args string, closed bool) bool {
	if name == "" {
		return false
	}
	st := Complete
	if !closed {
		if p.k.NeedEnd {
			return false
		}
		st = Recovered
	}
	if args != "" || !closed {
		p.twice, p.checked = false, true
		end, err := scanner{text: args, doubled: &p.twice}.value(0, 0)
		switch {
		case err == errCut && !closed:
			st = Truncated
		case err != nil || end != len(args):
			if p.k.Repair {
				if fixed, ok := repair(args); ok {
					args, st = fixed, worse(st, Recovered)
					break
				}
			}
			st = Malformed
			if p.k.NeedJSON {
				return false
			}
		}
	}
	p.call(a, b, name, args, st)
	return true
}

// dsml is the markup of V3.2 and later; a parameter says whether it is text. mark is in
// every tag, block is the name of the tag around the calls, and others are names that models
// write in its place.
func dsml(name, mark, block string, others ...string) grammar {
	open, end := "<"+mark, "</"+mark
	x := xmlish{open: open + block + ">", close: end + block + ">", fn: open + "invoke name=", fnClose: end + "invoke>", needOpen: true,
		par: open + "parameter name=", parClose: end + "parameter>", value: dsmlValue, selfClosing: true, json: true, finish: dsmlUnwrap}
	for _, o := range others {
		x.others = append(x.others, [2]string{open + o + ">", end + o + ">"})
	}
	return grammar{
		name:  name,
		think: plainThink.until(x.open).cut("\n"),
		read:  x.read,
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return content
			}
			return content + x.open + "\n" + join("", calls, "\n", func(_ int, c Call) string { return dsmlText(x, c) }) + "\n" + x.close
		},
	}
}

func dsmlText(x xmlish, c Call) string {
	var b strings.Builder
	b.WriteString(x.fn + "\"" + c.Name + "\">\n")
	for _, a := range arguments(c) {
		flag := "false"
		if a.isText {
			flag = "true"
		}
		b.WriteString(x.par + "\"" + a.key + "\" string=\"" + flag + "\">" + a.text + x.parClose + "\n")
	}
	b.WriteString(x.fnClose)
	return b.String()
}

func dsmlValue(p *parse, tool, key, attrs, raw string) string {
	switch {
	case strings.Contains(attrs, `string="true"`):
		if p.k.StripValues {
			raw = strings.TrimSpace(raw)
		}
		if p.opt.Dialect != SGLang && p.tools.params(tool).Prop(key) != nil {
			return p.coerce(tool, key, raw)
		}
		return quote(raw)
	case strings.Contains(attrs, `string="false"`):
		text := strings.TrimSpace(raw)
		prop := p.tools.params(tool).Prop(key)
		if p.opt.Dialect != SGLang && prop != nil && !json.Valid([]byte(text)) {
			return p.coerce(tool, key, raw)
		}
		if isJSON(text) {
			if text == "null" && p.opt.Dialect == VLLM && prop != nil && slices.Equal(prop.Types(p.tools.params(tool)), []string{"string"}) {
				return quote(text)
			}
			if p.opt.Dialect != SGLang && prop != nil {
				return p.inner(prop, p.tools.params(tool), text)
			}
			return text
		}
		return quote(raw)
	}
	return p.coerce(tool, key, raw)
}

// dsmlUnwrap undoes a wrapper: the only parameter is arguments or input, it is not
// declared, and its keys are.
func dsmlUnwrap(p *parse, tool string, ps []pair) string {
	whole := p.object(ps)
	if len(ps) != 1 || p.opt.Dialect == SGLang || ps[0].key != "arguments" && ps[0].key != "input" {
		return whole
	}
	props := p.tools.params(tool).Sub("properties")
	if props == nil || props[ps[0].key] != nil {
		return whole
	}
	text := ps[0].value
	if t, ok := unquote(text); ok {
		text = strings.TrimSpace(t)
	}
	sc := scanner{text: text}
	ms, end, err := sc.object(0)
	if err != nil || end != len(text) || len(ms) == 0 {
		return whole
	}
	for _, m := range ms {
		if props[m.key] == nil {
			return whole
		}
	}
	p.odd = true // the wrapper is left out
	return text
}

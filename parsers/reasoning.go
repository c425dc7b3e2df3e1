package parsers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/internal/nearest"
)

// reasoning is one format of thinking, read before or without calls.
type reasoning struct {
	think
	opens      []string // further opening marks
	closes     []string // further closing marks
	always     bool     // without any mark everything is reasoning
	off        bool     // everything is content unless thinking is switched on
	keep       bool     // in vLLM, switched off thinking and a block that is not closed are content
	swap       bool     // in vLLM, with thinking switched off reasoning becomes content when there is none
	bare       bool     // in vLLM, a closing mark alone ends no reasoning: it vanishes
	needOn     bool     // a closing mark alone is no sign of reasoning
	trim       string   // cut off the end of the reasoning
	serverTrim string   // as trim, but in vLLM only
	stray      bool     // in vLLM, further closing marks vanish
	loses      bool     // in vLLM, what follows a call's mark that ends reasoning is lost when no calls are read
	lead       string   // cut off the beginning of the content
	once       bool     // in vLLM, trim and lead are cut off once, not as often as they stand there
	answer     [2]string
	prepend    string // put in front of the text, which is all content
}

var kimiSections = []string{"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"}

// reasonings are the formats by name.
var reasonings = map[string]reasoning{
	"think_tags":              {think: plainThink},
	"deepseek_r1":             {think: plainThink, always: true},
	"deepseek_v3":             {think: plainThink, off: true},
	"holo2":                   {think: plainThink, off: true},
	"deepseek_v4":             {think: plainThink.until("<｜DSML｜tool_calls>"), trim: "\n", loses: true},
	"qwen3":                   {think: plainThink.until("<tool_call>")},
	"qwen3_coder":             {think: plainThink.until("<tool_call>"), serverTrim: "\n", stray: true},
	"glm45":                   {think: plainThink.until("<tool_call>")},
	"ling3":                   {think: plainThink.until("<tool_call>"), keep: true},
	"hy_v3":                   {think: hyThink},
	"hy_v4":                   {think: hyThink},
	"k2_horizon":              {think: k2Think},
	"plamo3":                  {think: plamoThink},
	"gigachat35":              {think: plainThink, always: true},
	"deepseek_v41":            {think: plainThink.until("<｜DSML｜ calls>"), trim: "\n", loses: true},
	"iquest_q1":               {think: plainThink.until("<iquest_tool_call>")},
	"granite_thinking":        {think: plainThink, always: true, swap: true, lead: "\n"},
	"qwen3_thinking":          {think: plainThink.until("<tool_call>"), always: true},
	"nemotron_v3":             {think: plainThink, always: true, swap: true},
	"olmo3":                   {think: plainThink, always: true},
	"kimi_k2":                 {think: plainThink.until(kimiSections...)},
	"kimi":                    {think: think{open: "◁think▷", close: "◁/think▷"}},
	"minimax_m2":              {think: plainThink.until("<minimax:tool_call>")},
	"minimax_m2_append_think": {prepend: "<think>"},
	"minimax_m3":              {think: think{open: "<mm:think>", close: "</mm:think>"}.until(m3 + "<tool_call>")},
	"minimax":                 {think: plainThink, always: true},
	"seed_oss":                {think: think{open: "<seed:think>", close: "</seed:think>"}.until("<seed:tool_call>"), always: true},
	"step3":                   {think: plainThink, always: true},
	"step3p5":                 {think: plainThink, always: true, trim: "\n", lead: "\n", once: true},
	"ernie45":                 {think: plainThink, always: true, lead: "\n", answer: [2]string{"<response>\n", "\n</response>"}},
	"gemma4":                  {think: think{open: "<|channel>", close: "<channel|>"}.until("<|tool_call>")},
	"cohere":                  {think: think{open: "<|START_THINKING|>", close: "<|END_THINKING|>"}},
	"mistral":                 {think: think{open: "[THINK]", close: "[/THINK]"}.until(mistralMark), bare: true},
	"identity":                {off: true},
	"hunyuan_a13b":            {think: think{open: "<think>\n", close: "\n</think>\n"}, answer: [2]string{"<answer>\n", "\n</answer>"}, needOn: true},
	"granite": {think: think{open: "Here is my thought process:", close: "Here is my response:"}, needOn: true,
		opens: []string{"Here's my thought process:"}, closes: []string{"Here's my response:"}},
}

// reasoningAliases are names of reasoning formats that are no names of families.
var reasoningAliases = map[string]string{
	"granite_thinking_parser": "granite_thinking", "minicpmv": "qwen3", "minimax_append_think": "minimax_m2_append_think",
}

// reasoning builds the family of NAME or NAME+FAMILY.
func (s *Set) reasoning(name string) (Family, error) {
	first, second, both := strings.Cut(name, "+")
	first, _, _ = strings.Cut(first, "/")
	g := grammar{name: "reasoning:" + first, read: func(p *parse) { p.content(p.pos, len(p.text)) }, format: func(c string, _ []Call) string { return c }}
	if both {
		f, err := s.Get(second)
		if err != nil {
			return Family{}, err
		}
		st, ok := f.New(ParseOptions{}).(*stream)
		if !ok {
			return Family{}, fmt.Errorf("%w: %q cannot follow a reasoning format", ErrUnknown, second)
		}
		g = st.gram
		g.base, g.name = g.name, "reasoning:"+name
	}
	r, ok := reasonings[first]
	for _, other := range []string{plainName(first), aliases[plainName(first)], reasoningAliases[plainName(first)]} {
		if !ok {
			r, ok = reasonings[other]
		}
	}
	if !ok {
		f, err := s.Get(first)
		if err == nil && both {
			if st, is := f.New(ParseOptions{}).(*stream); is && st.gram.think.close != "" { // the block of that family
				r, ok = reasoning{think: st.gram.think}, true
			}
		}
		if err != nil {
			return Family{}, fmt.Errorf("reasoning: %w %q (nearest: %s)", ErrUnknown, first,
				strings.Join(nearest.Names(first, slices.Collect(maps.Keys(reasonings)), 5), ", "))
		}
		if !ok {
			f.Name = g.name
			return f, nil
		}
	}
	family := g.think
	g.think = r.think
	read := g.read
	alone := !both
	var marks []string // a call of the family ends open reasoning in our dialect
	if both && len(r.markers) == 0 && r.close == family.close {
		marks = family.markers
	}
	r.loses = r.loses && alone
	g.reason = func(p *parse) {
		r := r
		if p.opt.Dialect == Ours && len(marks) > 0 {
			r.think = r.until(marks...)
		}
		r.split(p)
		if alone {
			p.own = true
		}
	}
	g.read = read
	return g.family(), nil
}

// split takes the reasoning out and sets p.pos to where the answer begins.
func (r reasoning) split(p *parse) {
	r.think = r.spelled(p)
	if p.opt.Variant.PlainThink {
		r.think = plainThink.until(r.markers...)
	}
	on := p.opt.Variant.Thinking
	p.fill = p.opt.Variant.FillContent || r.swap && p.opt.Dialect == VLLM && on != nil && !*on
	if r.prepend != "" {
		p.prefix = r.prepend
		return
	}
	if r.close == "" || r.off && (on == nil && !r.closesLate(p) || on != nil && !*on) || r.keep && p.opt.Dialect == VLLM && on != nil && !*on {
		return
	}
	if on != nil && !*on && p.index(r.close, 0) < 0 && p.index(r.open, 0) < 0 {
		return
	}
	r.block(p)
	r.unwrap(p)
}

// closesLate reports whether vLLM reads thinking although it is not switched on: the text
// has a closing mark without an opening mark, and something is written before it.
func (r reasoning) closesLate(p *parse) bool {
	end := p.index(r.close, 0)
	return p.opt.Dialect == VLLM && p.index(r.open, 0) < 0 && end > 0 && strings.TrimSpace(p.text[:end]) != ""
}

// extent is where a text has its block of reasoning.
type extent struct {
	open, openLen int  // the opening mark; open is -1 without one
	end, closeLen int  // the closing mark behind it; end is -1 without one
	call          int  // the first mark of a call behind the opening mark; -1 without one
	inside        bool // the text begins inside the block
}

// block takes the first block of reasoning out, if the text has one.
func (r reasoning) block(p *parse) {
	var e extent
	e.open, e.openLen = r.opening(p)
	e.end, e.closeLen = r.closing(p, max(e.open, 0))
	e.call = r.marker(p, max(e.open, 0))
	e.inside = p.opt.InReasoning || (r.always || r.off) && p.opt.Dialect != SGLang
	switch served := p.opt.Dialect == VLLM; {
	case served && r.bare && e.open < 0 && !e.inside && e.end >= 0:
		p.content(0, e.end)
		p.skip(e.end, e.closeLen)
	case served && r.keep && e.open >= 0 && e.end < 0 && e.call < 0:
		p.content(0, e.open)
		p.skip(e.open, e.openLen)
	case e.open >= 0 || e.inside || r.closesAlone(p, e):
		r.take(p, e)
	}
}

// closesAlone reports whether a closing mark that nothing opened ends reasoning.
func (r reasoning) closesAlone(p *parse, e extent) bool {
	if p.opt.Dialect == SGLang && r.open != "<mm:think>" {
		return false
	}
	return !r.needOn && e.end >= 0 && (e.call < 0 || e.call > e.end)
}

// take marks the reasoning and the text before it, and sets p.pos to where the answer begins.
func (r reasoning) take(p *parse, e extent) {
	served := p.opt.Dialect == VLLM
	from := r.enter(p, e)
	end, closeLen := r.leave(p, e, from)
	most := len(p.text)
	if served && r.once {
		most = 1
	}
	trim := r.trim
	if served && closeLen > 0 { // reasoning that a call ends keeps its blanks
		trim += r.serverTrim
	}
	if served && r.stray {
		p.stray = r.close
	}
	stop := end
	for n := 0; n < most && stop > from && strings.IndexByte(trim, p.text[stop-1]) >= 0; n++ {
		stop--
	}
	p.reason(from, stop)
	p.skip(stop, end+closeLen-stop)
	for n := 0; n < most && p.pos < len(p.text) && strings.IndexByte(r.lead, p.text[p.pos]) >= 0; n++ {
		p.pos++
	}
}

// enter marks what is before the reasoning and returns where that begins.
func (r reasoning) enter(p *parse, e extent) int {
	from := 0
	if e.open >= 0 {
		switch blank := strings.TrimSpace(p.text[:e.open]) == ""; {
		case blank:
		case e.inside:
			p.reason(0, e.open)
		default:
			p.content(0, e.open)
		}
		from = e.open + e.openLen
		p.frame(e.open, from)
		for p.at(r.open, from) {
			p.frame(from, from+e.openLen)
			from += e.openLen
		}
	}
	if r.open == "<|channel>" && p.at("thought\n", from) {
		p.frame(from, from+8)
		from += 8
	}
	return from
}

// leave returns where the reasoning that begins at from ends, and the length of the closing
// mark there. The mark of a call ends reasoning that is not closed.
func (r reasoning) leave(p *parse, e extent, from int) (end, closeLen int) {
	end, closeLen = e.end, e.closeLen
	call := r.marker(p, from)
	switch {
	case end < 0 && call >= 0:
		end, closeLen = call, 0
		p.loose = true
		p.fault(call, call, "unclosed_reasoning", "a call begins inside reasoning that is not closed")
		if r.loses && p.opt.Dialect == VLLM {
			p.fault(call, len(p.text), "dropped_text", "this dialect reads no content behind reasoning that is not closed")
			p.segs = append(p.segs, segment{kind: InFault, a: call, b: len(p.text), gone: true})
		}
	case end < 0:
		end = len(p.text)
		if p.opt.Dialect == Ours {
			p.fault(end, end, "unclosed_reasoning", "reasoning is not closed")
		}
	case p.opt.Dialect == VLLM && p.gram.base != "" && call >= 0 && call < end:
		end, closeLen = call, 0
		p.loose = true
		p.fault(call, call, "call_in_reasoning", "this dialect reads a call inside reasoning")
	}
	return max(end, from), closeLen
}

// skip marks n bytes at a place as frame, and sets p.pos behind them.
func (p *parse) skip(at, n int) {
	p.pos = min(at+n, len(p.text))
	p.frame(at, p.pos)
}

func (r reasoning) opening(p *parse) (at, n int) {
	at = -1
	for _, o := range append([]string{r.open}, r.opens...) {
		i := p.index(o, 0)
		if i >= 0 && p.opt.Dialect == Ours && strings.TrimSpace(p.text[:i]) != "" && !(p.prose().lineStart(i) && p.index(r.close, i) >= 0) {
			continue // the text speaks of it
		}
		if i >= 0 && (at < 0 || i < at) {
			at, n = i, len(o)
		}
	}
	return at, n
}

func (r reasoning) closing(p *parse, from int) (at, n int) {
	at = -1
	for _, c := range append([]string{r.close}, r.closes...) {
		if i := p.index(c, from); i >= 0 && (at < 0 || i < at) {
			at, n = i, len(c)
		}
	}
	return at, n
}

// unwrap removes the tags around the answer.
func (r reasoning) unwrap(p *parse) {
	if r.answer[0] == "" || !p.at(r.answer[0], p.pos) {
		return
	}
	p.pos += len(r.answer[0])
	if strings.HasSuffix(p.text[p.pos:], r.answer[1]) {
		p.limit = len(p.text) - len(r.answer[1])
	}
}

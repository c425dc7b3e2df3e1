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

// closesLate says that vLLM reads thinking although nothing switches it on: text stands
// before a closing mark that nothing opened.
func (r reasoning) closesLate(p *parse) bool {
	end := p.index(r.close, 0)
	return p.opt.Dialect == VLLM && p.index(r.open, 0) < 0 && end > 0 && strings.TrimSpace(p.text[:end]) != ""
}

func (r reasoning) block(p *parse) {
	open, n := r.opening(p)
	inside := p.opt.InReasoning || (r.always || r.off) && (p.opt.Dialect != SGLang)
	end, closeLen := r.closing(p, max(open, 0))
	mark := r.marker(p, max(open, 0))
	switch {
	case r.bare && p.opt.Dialect == VLLM && open < 0 && !inside && end >= 0:
		p.content(0, end)
		p.frame(end, end+closeLen)
		p.pos = end + closeLen
		return
	case r.keep && p.opt.Dialect == VLLM && open >= 0 && end < 0 && r.marker(p, open) < 0:
		p.content(0, open)
		p.frame(open, open+n)
		p.pos = open + n
		return
	case open < 0 && !inside && (end < 0 || r.needOn || p.opt.Dialect == SGLang && r.open != "<mm:think>"):
		return
	case open < 0 && !inside && mark >= 0 && mark < end:
		return
	case open >= 0 && !inside && (mark >= 0 && mark < open):
		return
	case open > 0 && inside && end >= 0 && end < open:
		open, n = -1, 0
	}
	from := 0
	if open >= 0 {
		if strings.TrimSpace(p.text[:open]) != "" {
			if inside {
				p.reason(0, open)
			} else {
				p.content(0, open)
			}
		}
		p.frame(open, open+n)
		from = open + n
		for p.at(r.open, from) {
			p.frame(from, from+n)
			from += n
		}
	}
	if r.open == "<|channel>" && p.at("thought\n", from) {
		p.frame(from, from+8)
		from += 8
	}
	if end < 0 {
		if m := r.marker(p, from); m >= 0 {
			end, closeLen = m, 0
			p.loose = true
			p.fault(m, m, "unclosed_reasoning", "a call begins inside reasoning that is not closed")
			if r.loses && p.opt.Dialect == VLLM {
				p.fault(m, len(p.text), "dropped_text", "this dialect reads no content behind reasoning that is not closed")
				p.segs = append(p.segs, segment{kind: InFault, a: m, b: len(p.text), gone: true})
			}
		} else {
			end = len(p.text)
			if p.opt.Dialect == Ours {
				p.fault(end, end, "unclosed_reasoning", "reasoning is not closed")
			}
		}
	}
	if p.opt.Dialect == VLLM && p.gram.base != "" { // a call begins inside closed thinking: it is read
		if m := r.marker(p, from); m >= 0 && m < end {
			end, closeLen = m, 0
			p.loose = true
			p.fault(m, m, "call_in_reasoning", "this dialect reads a call inside reasoning")
		}
	}
	end = max(end, from)
	if p.opt.Dialect == VLLM {
		if closeLen > 0 { // reasoning that a call ends keeps its blanks
			r.trim += r.serverTrim
		}
		if r.stray {
			p.stray = r.close
		}
	}
	most := len(p.text)
	if r.once && p.opt.Dialect == VLLM {
		most = 1
	}
	stop := end
	for n := 0; n < most && stop > from && strings.IndexByte(r.trim, p.text[stop-1]) >= 0; n++ {
		stop--
	}
	p.reason(from, stop)
	p.frame(stop, min(end+closeLen, len(p.text)))
	p.pos = min(end+closeLen, len(p.text))
	for n := 0; n < most && p.pos < len(p.text) && strings.IndexByte(r.lead, p.text[p.pos]) >= 0; n++ {
		p.pos++
	}
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

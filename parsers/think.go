package parsers

import (
	"slices"
	"strings"
)

// think is the block in which a family reasons.
type think struct {
	open, close string
	more        [][2]string // further pairs of marks: the first pair that occurs counts
	suffixed    bool        // the marks may carry the suffix of Hunyuan's tokens
	markers     []string    // a tool marker that ends reasoning which is not closed
	trim        string      // vLLM: cut off the end of reasoning
}

var plainThink = think{open: "<think>", close: "</think>"}

// until is t with the tool markers of a family.
func (t think) until(markers ...string) think {
	t.markers = markers
	return t
}

// split takes the think blocks before the first call out and returns where the
// rest begins. A call inside a closed block is reasoning and never executed.
func (t think) split(p *parse) int {
	t = t.spelled(p)
	at := 0
	inside := p.opt.InReasoning
	for {
		if !inside && at == 0 && p.k.LooseClose {
			c := p.index(t.close, 0)
			o := p.index(t.open, 0)
			m := t.marker(p, 0)
			inside = c >= 0 && (o < 0 || c < o) && (m < 0 || c < m)
		}
		if !inside {
			i := p.index(t.open, at)
			m := t.marker(p, at)
			if i < 0 || m >= 0 && m < i || p.opt.Dialect == Ours && !t.begins(p, at, i) {
				return at
			}
			p.content(at, i)
			p.frame(i, i+len(t.open))
			at = i + len(t.open)
		} else if s := p.skipSpace(at); p.at(gemmaThought, s) && t.close == "<channel|>" { // the opening token is lost
			p.frame(at, s+len(gemmaThought))
			at = s + len(gemmaThought)
		} else if p.at(t.open, s) {
			p.frame(at, s+len(t.open))
			at = s + len(t.open)
		}
		end := p.index(t.close, at)
		if end < 0 || p.opt.Dialect == Ours && t.insideCall(p, at, end) {
			return t.unclosed(p, at)
		}
		p.reason(at, t.trimmed(p, at, end))
		p.frame(end, end+len(t.close))
		at, inside = end+len(t.close), false
	}
}

// spelled is t with the marks that the text uses.
func (t think) spelled(p *parse) think {
	if s := t.suffix(p); s != "" {
		t.open, t.close = strings.TrimSuffix(t.open, ">")+s+">", strings.TrimSuffix(t.close, ">")+s+">"
	}
	if len(t.more) == 0 {
		return t
	}
	first := len(p.text)
	for _, m := range append([][2]string{{t.open, t.close}}, t.more...) {
		for _, mark := range m {
			if i := p.index(mark, 0); i >= 0 && i < first {
				first = i
				t.open = m[0]
				t.close = m[1]
			}
		}
	}
	return t
}

func (t think) suffix(p *parse) string {
	if !t.suffixed {
		return ""
	}
	return hySuffix(p)
}

// begins says, for our dialect, that the opening mark at i begins a block: nothing is
// before it, or it begins a line and is closed. Elsewhere the text speaks of it, or it is
// part of an argument.
func (t think) begins(p *parse, at, i int) bool {
	if p.genuine[i] != "" || strings.TrimSpace(p.text[at:i]) == "" {
		return true
	}
	q := p.prose()
	return len(t.markers) > 0 && q.lineStart(i) && !q.fenced(i) && p.index(t.close, i) >= 0
}

// insideCall says that the closing mark at end is in an argument of a call that begins
// inside reasoning: the model did not close its reasoning.
func (t think) insideCall(p *parse, at, end int) bool {
	m := t.marker(p, at)
	if m < 0 || m >= end || p.genuine[end] != "" || p.gram.read == nil {
		return false
	}
	probe := &parse{text: p.text, opt: p.opt, k: p.k, cut: p.cut, tools: p.tools, seen: map[string]found{}, genuine: p.genuine, pos: m}
	p.gram.read(probe)
	return slices.ContainsFunc(probe.out.Calls, func(c Call) bool { return c.Start < end && end < c.End && c.State == Complete })
}

func (t think) marker(p *parse, from int) int {
	best := -1
	for _, m := range t.markers {
		if i := p.index(m, from); i >= 0 && (best < 0 || i < best) {
			best = i
		}
	}
	return best
}

// trimmed is the end of the reasoning at..end as the dialect cuts it.
func (t think) trimmed(p *parse, at, end int) int {
	if p.opt.Dialect == VLLM {
		return at + len(strings.TrimRight(p.text[at:end], t.trim))
	}
	return end
}

// unclosed handles a block without its end: a tool marker ends it.
func (t think) unclosed(p *parse, at int) int {
	if m := t.marker(p, at); m >= 0 {
		p.reason(at, t.trimmed(p, at, m))
		p.fault(m, m, "unclosed_reasoning", "a call begins inside reasoning that is not closed")
		p.loose = true
		return m
	}
	p.reason(at, len(p.text))
	p.fault(len(p.text), len(p.text), "unclosed_reasoning", "reasoning is not closed")
	return len(p.text)
}

// cut is t with what vLLM cuts off the end of reasoning.
func (t think) cut(trim string) think {
	t.trim = trim
	return t
}

// outside reads the blocks that stand outside of think blocks, which stay in the content
// with the calls in them. start finds the next block, or -1; block reads it and returns its
// end.
func (p *parse) outside(t think, start, block func(int) int) {
	for at := p.pos; at < len(p.text); {
		i, open := start(at), p.index(t.open, at)
		switch {
		case i < 0:
			p.content(at, len(p.text))
			return
		case open >= 0 && open < i:
			end := nextOr(p, t.close, open)
			p.content(at, end)
			at = end
		default:
			p.content(at, i)
			at = block(i)
		}
	}
}

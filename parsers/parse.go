package parsers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// parse is the reading of one text by one grammar.
type parse struct {
	text  string
	opt   ParseOptions
	k     Knobs
	cut   bool
	tools *tools
	seen  map[string]found
	out   Parsed
	segs  []segment
	bad   bool // something that looked like a call could not be read
	// own is set by families whose frame is never content, even without a call.
	own bool
	// loose: reasoning was not closed, so every call after it is ambiguous.
	loose  bool
	stray  string // closing mark that vanishes where it is in content
	spent  int    // bytes read by attempts that failed: bounds the work on hostile text
	nested int    // places that were tried as the end of a string with nested quotes
	raw    bool   // control characters may stand in JSON strings
	bytes  bool   // the last call in Python has bytes among its values
	fill   bool   // reasoning becomes content when there is none
	prefix string // put in front of the content
	limit  int    // content ends here; 0 is the end of the text
	// rename mends the name of a call; nil leaves it.
	rename func(string) string
	pending
	suffix   string // of the family's tokens
	around   *prose // made when first asked for
	gram     grammar
	examples []int          // where calls are that the text only speaks of
	genuine  map[int]string // where ids were fed: the special tokens in the text
	// pos is where unread text begins after the think block.
	pos int
	// join is between pieces of content.
	join string
}

// pending is what is noted about the next call before it is added or refused.
type pending struct {
	also    string   // text that is neither name nor arguments: the call's id
	odd     bool     // the call is written in another way than the family's
	kept    [][2]int // values that the arguments hold as they are in the text
	checked bool     // the arguments were looked through for doubled keys
	twice   bool     // a value has a key twice
}

// next forgets what was noted about a call: it was added or refused.
func (p *parse) next() { p.pending = pending{kept: p.kept[:0]} }

type segment struct {
	kind SpanKind
	a, b int
	gone bool // a mark that vanishes even when no call was read
}

func run(g grammar, text string, opt ParseOptions, cut bool, genuine map[int]string) Parsed {
	p := &parse{text: text, opt: opt, cut: cut, k: opt.Dialect.Knobs(g.name), seen: map[string]found{}, genuine: genuine, gram: g}
	p.tools = newTools(opt.Tools)
	if on := opt.Variant.Thinking; opt.Dialect == VLLM && on != nil && !*on && g.reason == nil && g.think.close != "" {
		p.opt.InReasoning, opt.InReasoning = false, false // the template's switch counts, not the prompt's tail
	}
	if g.reason != nil && g.base == "" {
		p.k = Knobs{}
	}
	if g.base != "" {
		p.k = opt.Dialect.Knobs(g.base)
	}
	if g.reason != nil {
		g.reason(p)
	} else if (p.k.Think || opt.InReasoning) && g.think.close != "" {
		p.pos = g.think.split(p)
	}
	switch choice := opt.Variant.ToolChoice; {
	case choice == "none":
		if g.read(p); p.own {
			p.out.Calls = nil
		} else {
			p.segs = slices.DeleteFunc(p.segs, func(s segment) bool { return s.a >= p.pos })
			p.out.Calls, p.out.Faults = nil, nil
			p.content(p.pos, len(text))
		}
	case choice != "" && choice != "auto" && strings.HasPrefix(strings.TrimSpace(p.rest()), "[{"):
		readArray(p)
	default:
		g.read(p)
	}
	return p.finish(g)
}

func (p *parse) content(a, b int) {
	if p.limit > 0 && b > p.limit {
		p.seg(InFrame, max(a, p.limit), b)
		b = p.limit
	}
	if p.stray != "" {
		for i := p.index(p.stray, a); i >= 0 && i < b; i = p.index(p.stray, a) {
			p.seg(InContent, a, i)
			p.vanish(i, i+len(p.stray))
			a = i + len(p.stray)
		}
	}
	p.seg(InContent, a, b)
}

// vanish marks a..b as a mark that is never content.
func (p *parse) vanish(a, b int) {
	p.segs = append(p.segs, segment{kind: InFrame, a: a, b: b, gone: true})
}

func (p *parse) frame(a, b int)  { p.seg(InFrame, a, b) }
func (p *parse) reason(a, b int) { p.seg(InReasoning, a, b) }

func (p *parse) seg(kind SpanKind, a, b int) {
	if a < b {
		p.segs = append(p.segs, segment{kind: kind, a: a, b: b})
	}
}

// refuse marks a..b as something that looked like a call and is none.
func (p *parse) refuse(a, b int, kind, format string, args ...any) {
	p.bad = true
	p.fault(a, b, kind, format, args...)
	p.seg(InFault, a, b)
	p.next()
}

func (p *parse) fault(a, b int, kind, format string, args ...any) {
	p.out.Faults = append(p.out.Faults, Fault{Kind: kind, Message: fmt.Sprintf(format, args...), Start: a, End: b})
}

// call adds a call that is at a..b. An undeclared name may be dropped by the dialect.
func (p *parse) call(a, b int, name, args string, st State) {
	if p.opt.Dialect == Ours {
		var ok bool
		if p.odd {
			st = worse(st, Recovered)
		}
		name, args, st, ok = p.settle(a, b, name, args, st)
		p.next()
		if !ok {
			return
		}
	}
	if st == Truncated && p.k.NoCut {
		p.refuse(a, b, "truncated", "call of %q is cut", name)
		return
	}
	if p.k.DropUnknown && p.tools.known() && !p.tools.has(name) {
		p.fault(a, b, "unknown_tool", "tool %q is not declared", name)
		p.seg(InFault, a, b)
		return
	}
	if p.k.ObjectArgs && st != Truncated && args != "" && !strings.HasPrefix(strings.TrimSpace(args), "{") {
		p.refuse(a, b, "malformed", "the arguments of %q are no object", name)
		return
	}
	if p.k.Unwrap {
		args, _ = unquote(args)
	}
	if p.k.Coerce && strings.HasPrefix(args, "{") && isJSON(args) {
		args = p.within(p.tools.params(name), nil, args)
	}
	if args == "" && p.k.EmptyObject {
		args = "{}"
	}
	if p.loose && st == Complete {
		st = Ambiguous
	}
	if st != Complete {
		p.fault(a, b, string(st), "call of %q is %s", name, st)
	}
	p.out.Calls = append(p.out.Calls, Call{Name: name, Arguments: args, State: st, Start: a, End: b})
	p.seg(InCall, a, b)
}

func (p *parse) rest() string { return p.text[p.pos:] }

// found remembers one search: from a to pos there is no other hit; pos -1 is none.
type found struct{ from, pos int }

// index finds a marker at or after i, or returns -1. The last search for each marker
// is remembered, so that reading forward costs one pass over the text for a marker.
// In our dialect a marker of a call that prose quotes is none.
func (p *parse) index(marker string, i int) int {
	if i > len(p.text) || marker == "" {
		return -1
	}
	if f, ok := p.seen[marker]; ok && i >= f.from && (f.pos < 0 || i <= f.pos) {
		return f.pos
	}
	pos := strings.Index(p.text[i:], marker)
	if pos >= 0 {
		pos += i
		if p.opt.Dialect == Ours && openingMarks[marker] {
			for pos >= 0 && !p.isMarker(pos, len(marker)) {
				if n := strings.Index(p.text[pos+1:], marker); n >= 0 {
					pos += 1 + n
				} else {
					pos = -1
				}
			}
		}
	}
	p.seen[marker] = found{i, pos}
	return pos
}

func (p *parse) at(marker string, i int) bool {
	return marker != "" && i <= len(p.text) && strings.HasPrefix(p.text[i:], marker)
}

func (p *parse) skipSpace(i int) int {
	for i < len(p.text) && isSpace(p.text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (p *parse) finish(g grammar) Parsed {
	if p.bad && p.k.AllOrNothing {
		p.out.Calls = nil
	}
	p.tile()
	var reasons []string
	for _, s := range p.segs {
		if s.kind == InReasoning {
			reasons = append(reasons, p.text[s.a:s.b])
		}
	}
	p.out.Reasoning = strings.Join(reasons, p.join)
	if len(p.out.Calls) == 0 && !p.own {
		p.wholeText()
	} else {
		p.parts()
	}
	p.out.Content = p.prefix + p.out.Content
	if p.opt.Dialect == Ours {
		p.unread()
		p.account()
	}
	if p.fill && strings.TrimSpace(p.out.Content) == "" {
		p.out.Content, p.out.Reasoning = p.out.Reasoning, p.out.Content
	}
	for i := range p.out.Calls {
		p.identify(g, i)
	}
	sort.SliceStable(p.out.Faults, func(i, j int) bool { return p.out.Faults[i].Start < p.out.Faults[j].Start })
	return p.out
}

// tile sorts the segments and gives every byte exactly one.
func (p *parse) tile() {
	sort.SliceStable(p.segs, func(i, j int) bool { return p.segs[i].a < p.segs[j].a })
	var out []segment
	at := 0
	for _, s := range p.segs {
		if s.b <= at {
			continue
		}
		s.a = max(s.a, at)
		out = p.gap(out, at, s.a)
		out = append(out, s)
		at = s.b
	}
	p.segs = p.gap(out, at, len(p.text))
}

func (p *parse) gap(out []segment, a, b int) []segment {
	if a >= b {
		return out
	}
	kind := InFrame
	if strings.TrimSpace(p.text[a:b]) != "" {
		kind = InFault
		p.fault(a, b, "unread", "text that belongs to nothing")
	}
	return append(out, segment{kind: kind, a: a, b: b})
}

// wholeText is content when no call was found: everything but the reasoning.
func (p *parse) wholeText() {
	var b strings.Builder
	for _, s := range p.segs {
		kind := s.kind
		if kind == InCall || (kind == InFault || kind == InFrame && s.a >= p.pos) && !p.k.EatFrames && !s.gone {
			kind = InContent
		}
		if kind == InContent {
			b.WriteString(p.text[s.a:s.b])
		}
		p.out.Spans = append(p.out.Spans, Span{kind, s.a, s.b})
	}
	p.out.Content = p.k.NoCall.apply(b.String())
}

// parts joins the content around the calls as the dialect wants it.
func (p *parse) parts() {
	first, last := -1, -1
	for i, s := range p.segs {
		if s.kind == InCall {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	var groups [3]strings.Builder
	for i, s := range p.segs {
		g, keep := 0, p.k.Before != DropText
		if first >= 0 && i > last {
			g, keep = 2, p.k.After != DropText
		} else if first >= 0 && i > first {
			g, keep = 1, p.k.Between != DropText
		}
		kind := s.kind
		if kind == InContent {
			text := p.text[s.a:s.b]
			switch {
			case keep:
				if groups[g].Len() > 0 {
					groups[g].WriteString(p.join)
				}
				groups[g].WriteString(text)
			case strings.TrimSpace(text) == "":
				kind = InFrame
			default:
				kind = InFault
				p.fault(s.a, s.b, "dropped_text", "text beside a call is not kept in this family")
			}
		}
		p.out.Spans = append(p.out.Spans, Span{kind, s.a, s.b})
	}
	var joined []string
	for g, how := range []Text{p.k.Before, p.k.Between, p.k.After} {
		t := how.apply(groups[g].String())
		if t != "" {
			joined = append(joined, t)
		}
	}
	p.out.Content = strings.Join(joined, p.k.Join)
	if len(p.out.Calls) > 0 && (!p.k.KeepBlank || p.pos > 0) && strings.TrimSpace(p.out.Content) == "" {
		p.out.Content = ""
	}
}

// identify gives a call an id of the family's shape when the model wrote none.
func (p *parse) identify(g grammar, i int) {
	c := &p.out.Calls[i]
	if g.id != nil {
		g.id(p, i, c)
	}
	if c.ID == "" {
		c.ID = "call_" + p.digest(i)[:24]
	}
}

func (p *parse) digest(i int) string {
	c := p.out.Calls[i]
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%d\x00%s\x00", p.opt.Salt, p.opt.CallsBefore, i, c.Name)
	var part [1024]byte // arguments may be large: no copy of the whole
	for rest := c.Arguments; rest != ""; {
		n := copy(part[:], rest)
		h.Write(part[:n])
		rest = rest[n:]
	}
	return hex.EncodeToString(h.Sum(nil))
}

// before lets read see the text up to end only.
func (p *parse) before(end int, read func(*parse)) {
	whole := p.text
	seen := p.seen
	around := p.around
	p.text, p.seen, p.around = p.text[:end], map[string]found{}, nil
	read(p)
	p.text = whole
	p.seen = seen
	p.around = around
}

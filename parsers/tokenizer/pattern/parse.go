package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/parsers/tokenizer/unidata"
)

// kind of a syntax tree's node.
type kind uint8

const (
	kSet    kind = iota // one code point of ranges
	kCat                // all of kids
	kAlt                // one of kids
	kRepeat             // kids[0], lo to hi times (hi -1: any)
	kLook               // kids[0] follows, or with behind precedes; neg
	kAtomic             // kids[0] without going back into it
	kAssert             // ch names the assertion
)

type tree struct {
	kind        kind
	set         ranges
	kids        []*tree
	lo, hi      int
	mode        byte // of a repeat: 'g'reedy, 'l'azy, 'p'ossessive
	neg, behind bool
	ch          byte
}

const (
	maxSource = 16 << 10 // bytes of a pattern
	maxDepth  = 60       // nested groups
	maxCount  = 1000     // of a counted repeat
)

type parser struct {
	src     string
	at      int
	fold    bool
	dialect Dialect
	depth   int
}

func (p *parser) fail(format string, a ...any) error {
	return fmt.Errorf("at byte %d: %s", p.at, fmt.Sprintf(format, a...))
}

func (p *parser) more() bool { return p.at < len(p.src) }

func (p *parser) peek(s string) bool { return strings.HasPrefix(p.src[p.at:], s) }

func (p *parser) take(s string) bool {
	if p.peek(s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *parser) rune() rune {
	c, n := utf8.DecodeRuneInString(p.src[p.at:])
	p.at += n
	return c
}

func (p *parser) alternatives() (*tree, error) {
	p.depth++
	if p.depth > maxDepth {
		return nil, p.fail("more than %d nested groups", maxDepth)
	}
	defer func() { p.depth-- }()
	alt := &tree{kind: kAlt}
	for {
		cat := &tree{kind: kCat}
		for p.more() && !p.peek("|") && !p.peek(")") {
			t, err := p.repeated()
			if err != nil {
				return nil, err
			}
			if t != nil {
				cat.kids = append(cat.kids, t)
			}
		}
		if err := p.checkFold(cat); err != nil {
			return nil, err
		}
		alt.kids = append(alt.kids, cat)
		if !p.take("|") {
			break
		}
	}
	if len(alt.kids) == 1 {
		return alt.kids[0], nil
	}
	return alt, nil
}

// checkFold refuses letters that fold together with a neighbour into one code point (ss and ß).
func (p *parser) checkFold(cat *tree) error {
	if !p.fold || p.dialect != Oniguruma {
		return nil
	}
	for i := 1; i < len(cat.kids); i++ {
		a, b := cat.kids[i-1], cat.kids[i]
		if a.kind != kSet || b.kind != kSet {
			continue
		}
		for _, pair := range []string{"ss", "ff", "fi", "fl", "st", "ij", "jʒ"} {
			if one, n := utf8.DecodeRuneInString(pair); contains(a.set, one) && contains(b.set, rune(pair[n])) {
				return p.fail("case-insensitive %q, which folds to one letter, is not supported", pair)
			}
		}
	}
	return nil
}

func contains(r ranges, c rune) bool {
	for _, x := range r {
		if x[0] <= c && c <= x[1] {
			return true
		}
	}
	return false
}

func (p *parser) repeated() (*tree, error) {
	t, err := p.atom()
	if err != nil || t == nil {
		return nil, err
	}
	for p.more() {
		lo, hi := 0, -1
		start := p.at
		switch c := p.src[p.at]; {
		case c == '*':
		case c == '+':
			lo = 1
		case c == '?':
			hi = 1
		case c == '{':
			var ok bool
			lo, hi, ok, err = p.counts()
			if err != nil {
				return nil, err
			} else if !ok {
				p.at = start
				return t, nil
			}
			p.at--
		default:
			return t, nil
		}
		counted := p.src[start] == '{'
		p.at++
		mode := byte('g')
		switch {
		case p.take("?"):
			mode = 'l'
			if counted && lo == hi && p.dialect == Oniguruma {
				return nil, p.fail("lazy fixed count is not supported")
			}
		case (!counted || p.dialect != Oniguruma) && p.take("+"):
			mode = 'p'
		}
		if t.kind == kAssert || t.kind == kLook {
			return nil, p.fail("repeated assertion")
		}
		t = &tree{kind: kRepeat, kids: []*tree{t}, lo: lo, hi: hi, mode: mode}
	}
	return t, nil
}

func (p *parser) counts() (lo, hi int, ok bool, err error) {
	end := strings.IndexByte(p.src[p.at:], '}')
	if end < 0 {
		return 0, 0, false, nil
	}
	body := p.src[p.at+1 : p.at+end]
	a, b, comma := strings.Cut(body, ",")
	lo, err = strconv.Atoi(a)
	if err != nil && !(a == "" && comma && b != "" && p.dialect == Oniguruma) {
		return 0, 0, false, nil
	}
	hi = lo
	if comma {
		hi = -1
		if b != "" {
			hi, err = strconv.Atoi(b)
			if err != nil {
				return 0, 0, false, nil
			}
		}
	}
	if lo < 0 || lo > maxCount || hi > maxCount || hi >= 0 && hi < lo {
		return 0, 0, false, p.fail("repeat count {%s}", body)
	}
	p.at += end + 1
	return lo, hi, true, nil
}

func (p *parser) atom() (*tree, error) {
	switch {
	case p.take("("):
		return p.group()
	case p.peek("["):
		s, err := p.class()
		return &tree{kind: kSet, set: s}, err
	case p.take("."):
		return &tree{kind: kSet, set: ranges{{'\n', '\n'}}.not()}, nil
	case p.take("^"):
		return p.assert('^', 'A'), nil
	case p.take("$"):
		return p.assert('$', 'z'), nil
	case p.take(`\`):
		return p.escape()
	case p.peek("*"), p.peek("+"), p.peek("?"):
		return nil, p.fail("nothing to repeat")
	}
	return p.literal(p.rune()), nil
}

// assert is the first name for Oniguruma, whose ^ and $ are those of lines, else the second.
func (p *parser) assert(onig, rust byte) *tree {
	if p.dialect == Oniguruma {
		return &tree{kind: kAssert, ch: onig}
	}
	return &tree{kind: kAssert, ch: rust}
}

func (p *parser) literal(c rune) *tree {
	return &tree{kind: kSet, set: p.folded(ranges{{c, c}})}
}

func (p *parser) folded(r ranges) ranges {
	if !p.fold {
		return r
	}
	out := append(ranges(nil), r...)
	for _, x := range r {
		for c := x[0]; c <= x[1]; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, [2]rune{f, f})
			}
		}
	}
	return normal(out)
}

func (p *parser) group() (*tree, error) {
	outer := &tree{}
	fold := p.fold
	if p.take("?") {
		switch {
		case p.take(":"):
		case p.take("="):
			outer.kind = kLook
		case p.take("!"):
			outer.kind, outer.neg = kLook, true
		case p.take("<="):
			outer.kind, outer.behind = kLook, true
		case p.take("<!"):
			outer.kind = kLook
			outer.behind = true
			outer.neg = true
		case p.take(">"):
			outer.kind = kAtomic
		case p.take("i:"):
			p.fold = true
		case p.take("-i:"):
			p.fold = false
		case p.take("i)"):
			if p.depth != 1 || p.dialect == Oniguruma && p.at != 4 {
				return nil, p.fail("(?i) inside of a pattern is not supported")
			}
			p.fold = true
			return nil, nil
		default:
			return nil, p.fail("group (?%.3s… is not supported", p.src[p.at:])
		}
	}
	t, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	p.fold = fold
	if !p.take(")") {
		return nil, p.fail("missing )")
	}
	switch {
	case outer.kind == kSet:
		return t, nil
	case outer.behind && t.kind != kSet && !(t.kind == kCat && len(t.kids) == 1 && t.kids[0].kind == kSet):
		return nil, p.fail("look-behind of more than one character is not supported")
	}
	outer.kids = []*tree{t}
	return outer, nil
}

func (p *parser) escape() (*tree, error) {
	if !p.more() {
		return nil, p.fail(`lone \ at the end`)
	}
	switch c := p.src[p.at]; c {
	case 'A', 'z', 'b', 'B', 'Z':
		p.at++
		return &tree{kind: kAssert, ch: c}, nil
	}
	s, err := p.escapedSet()
	if err != nil {
		return nil, err
	}
	return &tree{kind: kSet, set: s}, nil
}

// escapedSet reads what follows a backslash, as a set.
func (p *parser) escapedSet() (ranges, error) {
	c := p.rune()
	switch c {
	case 's', 'S', 'd', 'D', 'w', 'W':
		return p.shorthand(byte(c)), nil
	case 'p', 'P':
		return p.property(c == 'P')
	case 'u', 'x':
		v, err := p.hex(c)
		return p.folded(ranges{{v, v}}), err
	}
	if i := strings.IndexRune("nrtfva", c); i >= 0 && c < utf8.RuneSelf {
		v := rune("\n\r\t\f\v\a"[i])
		return ranges{{v, v}}, nil
	}
	if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
		return nil, p.fail(`escape \%c is not supported`, c)
	}
	return p.folded(ranges{{c, c}}), nil
}

func (p *parser) shorthand(c byte) ranges {
	var r ranges
	switch c | 0x20 {
	case 's':
		r = unidata.WithFlag(unidata.Space)
	case 'd':
		r, _ = category("Nd")
	case 'w':
		r = unidata.WithFlag(unidata.OnigWord)
		if p.dialect != Oniguruma {
			r = unidata.WithFlag(unidata.RustWord)
		}
	}
	if c < 'a' {
		return r.not()
	}
	return r
}

func category(name string) (ranges, bool) {
	r, ok := unidata.Category(name)
	return r, ok
}

func (p *parser) property(neg bool) (ranges, error) {
	var name string
	if p.take("{") {
		end := strings.IndexByte(p.src[p.at:], '}')
		if end < 0 {
			return nil, p.fail("missing }")
		}
		name = p.src[p.at : p.at+end]
		p.at += end + 1
	} else if p.more() && p.dialect != Oniguruma {
		name = string(p.rune())
	}
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, neg = rest, !neg
	}
	if rest, ok := strings.CutPrefix(name, "Script="); ok && p.dialect != Oniguruma {
		name = rest
	}
	r, ok := category(name)
	if !ok {
		return nil, p.fail(`property \p{%s} is not supported`, name)
	}
	if p.fold && (len(name) == 2 && name[0] == 'L') {
		return nil, p.fail(`case-insensitive \p{%s} is not supported`, name)
	}
	if neg {
		return r.not(), nil
	}
	return r, nil
}

func (p *parser) hex(c rune) (rune, error) {
	digits := ""
	if p.take("{") {
		end := strings.IndexByte(p.src[p.at:], '}')
		if end < 0 {
			return 0, p.fail("missing }")
		}
		digits = p.src[p.at : p.at+end]
		p.at += end + 1
	} else {
		n := 4
		if c == 'x' {
			n = 2
		}
		if p.at+n > len(p.src) {
			return 0, p.fail(`short \%c`, c)
		}
		digits = p.src[p.at : p.at+n]
		p.at += n
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > utf8.MaxRune || c == 'x' && v > 127 && len(digits) == 2 {
		return 0, p.fail(`code point \%c%s`, c, digits)
	}
	return rune(v), nil
}

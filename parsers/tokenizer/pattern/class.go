package pattern

import "strings"

// class reads [...] with ranges, escapes, nested classes, && and POSIX names.
func (p *parser) class() (ranges, error) {
	p.depth++
	if p.depth > maxDepth {
		return nil, p.fail("more than %d nested classes", maxDepth)
	}
	defer func() { p.depth-- }()
	p.take("[")
	neg := p.take("^")
	var all, part ranges
	both, first := false, true
	for {
		switch {
		case !p.more():
			return nil, p.fail("missing ]")
		case p.peek("]") && !first:
			p.at++
			part = normal(part)
			if both {
				part = all.and(part)
			}
			if neg {
				part = part.not()
			}
			return part, nil
		case p.take("&&"):
			part = normal(part)
			if both {
				part = all.and(part)
			}
			all, part, both = part, nil, true
		case p.peek("[:"):
			return nil, p.fail("POSIX bracket is not supported")
		case p.peek("["):
			r, err := p.class()
			if err != nil {
				return nil, err
			}
			part = append(part, r...)
		default:
			r, err := p.item()
			if err != nil {
				return nil, err
			}
			part = append(part, r...)
		}
		first = false
	}
}

func (p *parser) element() (ranges, error) {
	if p.take(`\`) {
		if !p.more() {
			return nil, p.fail(`lone \ at the end`)
		}
		return p.escapedSet()
	}
	c := p.rune()
	return p.folded(ranges{{c, c}}), nil
}

// item is one element of a class or a range of two.
func (p *parser) item() (ranges, error) {
	start := p.at
	fold := p.fold
	p.fold = false
	defer func() { p.fold = fold }()
	lo, err := p.element()
	if err != nil {
		return nil, err
	}
	single := func(r ranges) bool { return len(r) == 1 && r[0][0] == r[0][1] }
	if p.peek("-") && !strings.HasPrefix(p.src[p.at:], "-]") && single(lo) {
		p.at++
		if p.peek("[") || p.peek("&&") {
			return nil, p.fail("range without an end")
		}
		hi, err := p.element()
		if err != nil {
			return nil, err
		}
		if !single(hi) || hi[0][0] < lo[0][0] {
			return nil, p.fail("range %q", p.src[start:p.at])
		}
		lo = ranges{{lo[0][0], hi[0][0]}}
	}
	p.fold = fold
	if single(lo) || len(lo) == 1 && lo[0][1]-lo[0][0] < 1<<12 {
		return p.folded(lo), nil
	}
	return lo, nil
}

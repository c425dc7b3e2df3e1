package parsers

import "strings"

// frameMarks are the tokens around all calls and around each call.
type frameMarks struct{ open, close, call, end string }

// frames walks calls framed by tokens. one reads the call in a..b, whose frame ends
// at end; it returns false to refuse it. closed says that the end token is there.
func frames(p *parse, m frameMarks, one func(a, b, end int, closed bool) bool) {
	at := p.pos
	for at < len(p.text) {
		i := p.index(m.open, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = section(p, m, i, one)
	}
}

// section reads the calls of one outer pair and returns its end.
func section(p *parse, m frameMarks, i int, one func(a, b, end int, closed bool) bool) int {
	at := i + len(m.open)
	stop := p.index(m.close, at)
	if p.k.NeedClose && stop < 0 {
		p.refuse(i, len(p.text), "truncated", "%s without %s", m.open, m.close)
		return len(p.text)
	}
	p.frame(i, at)
	for {
		c := p.index(m.call, at)
		stop = p.index(m.close, at)
		if c < 0 || stop >= 0 && stop < c {
			break
		}
		p.frame(at, p.skipSpace(at))
		from := c + len(m.call)
		b, end, closed := frameEnd(p, m, from)
		if !one(from, b, end, closed) {
			p.refuse(c, end, "malformed", "a call that cannot be read")
		} else {
			p.frame(c, from)
			p.frame(b, end)
		}
		at = end
	}
	end := len(p.text)
	if stop >= 0 {
		end = stop
	}
	if strings.TrimSpace(p.text[at:end]) == "" {
		p.frame(at, end)
	} else {
		p.refuse(at, end, "malformed", "text that is no call")
	}
	if stop < 0 {
		return end
	}
	p.frame(stop, stop+len(m.close))
	return stop + len(m.close)
}

// frameEnd finds the end of the call that begins at from; an end token inside a JSON
// string is part of the string.
func frameEnd(p *parse, m frameMarks, from int) (b, end int, closed bool) {
	e := p.index(m.end, from)
	if e >= 0 {
		if j := p.jsonAt(from, e); j > e {
			if k := p.skipSpace(j); p.at(m.end, k) {
				return k, k + len(m.end), true
			} else if f := p.skipSpace(k + 3); p.opt.Dialect == Ours && p.at("```", k) && p.at(m.end, f) {
				return f, f + len(m.end), true
			}
		}
		if n := p.index(m.call, from); n < 0 || e < n || p.insideJSON(from, n, e) {
			return e, e + len(m.end), true
		}
	}
	stop := len(p.text)
	for _, k := range []string{m.call, m.close} {
		if n := p.index(k, from); n >= 0 && n < stop {
			stop = n
		}
	}
	return stop, stop, false
}

// jsonAt returns the end of the first object after from that begins before limit, or -1.
func (p *parse) jsonAt(from, limit int) int {
	for i := from; i < limit; i++ {
		if p.text[i] == '{' {
			end, err := scanner{text: p.text}.value(i, 0)
			if err != nil {
				return -1
			}
			return end
		}
	}
	return -1
}

// insideJSON says that position at lies inside the object that begins after from.
func (p *parse) insideJSON(from, at, limit int) bool { return p.jsonAt(from, limit) > at }

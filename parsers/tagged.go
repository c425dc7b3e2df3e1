package parsers

import "strings"

// tagged reads JSON objects, or lists of them, between two tags.
type tagged struct {
	open, close string
	keys        jsonKeys
	one         bool // only the first block is read
	lines       bool // several objects may stand in one block
}

func (t tagged) read(p *parse) {
	at := p.pos
	for {
		i := p.index(t.open, at)
		if i < 0 || t.one && at > p.pos {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = t.block(p, i)
	}
}

// block reads the block whose opening tag is at i and returns its end.
func (t tagged) block(p *parse, i int) int {
	at := p.skipSpace(i + len(t.open))
	start, found := i, 0
	for at < len(p.text) {
		if p.text[at] == '[' {
			end, err := p.jsonList(at, t.keys)
			if err != nil {
				return t.bad(p, i, at, end, err)
			}
			p.frame(i, at)
			at, start = p.skipSpace(end), end
			found++
			break
		}
		b := p.jsonCall(at, t.keys)
		if n := p.index("\n", at); b.err != nil && t.lines && found+n > 0 && n >= 0 && (p.index(t.close, at) < 0 || n < p.index(t.close, at)) {
			p.refuse(start, n, "malformed", "call object: %s", b.why)
			at, start = p.skipSpace(n), n
			if p.at(t.close, at) && found > 0 {
				break
			}
			continue
		}
		if b.err != nil {
			return t.bad(p, start, at, b.end, b.err)
		}
		found++
		end, state := t.after(p, b.end)
		if end < 0 {
			return t.bad(p, start, at, b.end, errBad)
		}
		last := strings.HasSuffix(p.text[start:end], t.close) && t.close != ""
		p.call(start, end, b.name, b.args, worse(state, b.state))
		at, start = p.skipSpace(end), end
		if last || !t.lines || at < len(p.text) && p.text[at] != '{' && !p.at(t.close, at) {
			return end
		}
		if p.at(t.close, at) {
			break
		}
	}
	if found == 0 {
		return t.bad(p, i, at, len(p.text), errCut)
	}
	if p.at(t.close, at) {
		p.frame(start, at+len(t.close))
		return at + len(t.close)
	}
	return start
}

// after looks at what follows the object: the closing tag, the next block, the end,
// or a brace too many. -1 means that the block is not what it seemed.
func (t tagged) after(p *parse, end int) (int, State) {
	j := p.skipSpace(end)
	if t.close == "" {
		return end, Complete
	}
	if p.at(t.close, j) {
		if t.lines {
			return end, Complete
		}
		return j + len(t.close), Complete
	}
	if j == len(p.text) || p.at(t.open, j) || t.lines && p.text[j] == '{' {
		if t.lines {
			return end, Complete
		}
		return end, Recovered
	}
	k := j
	for k < len(p.text) && (p.text[k] == '}' || isSpace(p.text[k])) {
		k++
	}
	if k > j && p.k.Repair && (k == len(p.text) || p.at(t.close, k) || t.lines && p.text[k] == '{') {
		if p.at(t.close, k) && !t.lines {
			k += len(t.close)
		}
		return k, Recovered
	}
	if c := p.index(t.close, j); c >= 0 {
		return -1, Malformed
	}
	return end, Recovered
}

// bad refuses the block from start and finds where reading goes on.
func (t tagged) bad(p *parse, start, at, end int, err error) int {
	c, o := p.index(t.close, at), p.index(t.open, max(at, start+len(t.open)))
	stop := len(p.text)
	switch {
	case c >= 0 && (o < 0 || c < o):
		stop = c + len(t.close)
	case o >= 0:
		stop = o
	}
	kind := "malformed"
	if err == errCut && stop == len(p.text) && c < 0 {
		kind = "truncated"
	}
	p.refuse(start, stop, kind, "%s block: %v at byte %d", t.open, err, end)
	return stop
}

package parsers

import "strings"

// xmlish reads calls whose parameters are elements: <function=F><parameter=k>v….
type xmlish struct {
	open, close       string // around the calls; open may be empty
	fn, fnClose       string // "<function=" or "<invoke name="
	par, parClose     string
	value             func(p *parse, tool, key, attrs, raw string) string
	newlines          bool // one newline at each end of a value belongs to the frame
	needOpen          bool
	finish            func(p *parse, tool string, ps []pair) string
	selfClosing, json bool
}

func (x xmlish) read(p *parse) {
	at := p.pos
	for {
		i := x.start(p, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = x.block(p, i)
	}
}

// start finds the next block, or the next bare call where the dialect allows it.
func (x xmlish) start(p *parse, at int) int {
	i := p.index(x.open, at)
	if p.k.Bare && !x.needOpen {
		if f := p.index(x.fn, at); f >= 0 && (i < 0 || f < i) {
			return f
		}
	}
	return i
}

func (x xmlish) block(p *parse, i int) int {
	at := i
	if p.at(x.open, i) {
		at = i + len(x.open)
		if p.k.NeedClose && p.index(x.close, at) < 0 {
			p.refuse(i, len(p.text), "truncated", "%s without %s", x.open, x.close)
			return len(p.text)
		}
	}
	begin := i
	for n := 0; ; n++ {
		j := p.skipSpace(at)
		switch {
		case j < len(p.text) && p.at(x.fn, j):
			at = x.function(p, begin, j)
			begin = at
		case j < len(p.text) && p.at(x.close, j):
			j += len(x.close)
			if n == 0 {
				p.refuse(i, j, "malformed", "empty %s block", x.open)
			} else {
				p.frame(at, j)
			}
			return j
		case n == 0 && j == len(p.text):
			p.refuse(i, len(p.text), "truncated", "%s without a call", x.open)
			return len(p.text)
		case n == 0:
			return x.skip(p, i, j)
		default:
			return at
		}
	}
}

// skip refuses a block that does not begin with a call.
func (x xmlish) skip(p *parse, i, j int) int {
	stop := len(p.text)
	if c := p.index(x.close, j); c >= 0 {
		stop = c + len(x.close)
	}
	if f := p.index(x.fn, j); f >= 0 && f < stop {
		p.refuse(i, f, "malformed", "text before the call")
		return x.block(p, f)
	}
	if o := p.index(x.open, j); o >= 0 && o < stop {
		stop = o
	}
	p.refuse(i, stop, "malformed", "%s block without a call", x.open)
	return stop
}

// tag reads a tag's name and attributes; i stands behind the prefix. ok is false when
// no ">" ends it before the next tag or newline.
func tag(text string, i int) (name, attrs string, end int, ok bool) {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		q := strings.IndexByte(text[i+1:], text[i])
		g := strings.IndexByte(text[i+1:], '\n')
		if q >= 0 && (g < 0 || q < g) {
			name = text[i+1 : i+1+q]
			rest := i + q + 2
			e := strings.IndexByte(text[rest:], '>')
			if e < 0 {
				return name, "", len(text), false
			}
			return name, text[rest : rest+e], rest + e + 1, true
		}
	}
	e := strings.IndexAny(text[min(i, len(text)):], "><\n")
	if e < 0 {
		return strings.TrimSpace(text[min(i, len(text)):]), "", len(text), false
	}
	name = strings.Trim(strings.TrimSpace(text[i:i+e]), "\"'")
	if text[i+e] != '>' {
		return name, "", i + e, false
	}
	return name, "", i + e + 1, true
}

// function reads one call whose tag stands at j; the call's bytes begin at begin.
func (x xmlish) function(p *parse, begin, j int) int {
	name, attrs, at, ok := tag(p.text, j+len(x.fn))
	if !ok || name == "" {
		stop := x.nextFrame(p, max(at, j+len(x.fn)))
		kind := "malformed"
		if stop == len(p.text) {
			kind = "truncated"
		}
		p.refuse(begin, stop, kind, "the tag of a call is not closed")
		return stop
	}
	if x.selfClosing && strings.HasSuffix(strings.TrimSpace(attrs), "/") {
		p.call(begin, at, name, "{}", Complete)
		return at
	}
	if s := p.skipSpace(at); x.json && s < len(p.text) && p.text[s] == '{' {
		if end, err := (scanner{text: p.text}).value(s, 0); err == nil {
			if e := p.skipSpace(end); p.at(x.fnClose, e) {
				p.call(begin, e+len(x.fnClose), name, p.text[s:end], Complete)
				return e + len(x.fnClose)
			}
		}
	}
	var ps []pair
	state := Complete
	for {
		k := p.skipSpace(at)
		switch {
		case k == len(p.text):
			p.call(begin, k, name, x.done(p, name, ps), worse(state, Truncated))
			return k
		case p.at(x.fnClose, k):
			k += len(x.fnClose)
			p.call(begin, k, name, x.done(p, name, ps), state)
			return k
		case p.at(x.par, k):
			var one []pair
			var st State
			one, at, st = x.parameter(p, name, k)
			ps, state = append(ps, one...), worse(state, st)
		case p.at(x.close, k) || p.at(x.fn, k) || x.open != "" && p.at(x.open, k):
			p.call(begin, k, name, x.done(p, name, ps), worse(state, Recovered))
			return k
		default:
			next := x.nextFrame(p, k+1)
			if q := p.index(x.par, k); q >= 0 && q < next {
				next = q
			}
			p.fault(k, next, "stray_text", "text between the parameters of %q", name)
			state, at = worse(state, Recovered), next
		}
	}
}

func (x xmlish) done(p *parse, name string, ps []pair) string {
	if x.finish != nil {
		return x.finish(p, name, ps)
	}
	return p.object(ps)
}

// parameter reads the parameter whose tag stands at k.
func (x xmlish) parameter(p *parse, tool string, k int) ([]pair, int, State) {
	key, attrs, at, ok := tag(p.text, k+len(x.par))
	if !ok {
		return nil, max(at, k+len(x.par)), worse(Recovered, cutAt(at, len(p.text)))
	}
	end, next, state := x.valueEnd(p, at)
	raw := p.text[at:end]
	if state == Truncated && p.k.DropCut {
		return nil, next, state
	}
	if x.newlines {
		raw = trimLine(raw)
	}
	return []pair{{key, x.val(p, tool, key, attrs, raw)}}, next, state
}

func cutAt(at, n int) State {
	if at >= n {
		return Truncated
	}
	return Complete
}

func (x xmlish) val(p *parse, tool, key, attrs, raw string) string {
	if x.value != nil {
		return x.value(p, tool, key, attrs, raw)
	}
	return p.coerce(tool, key, raw)
}

// valueEnd finds the end of a value: the first closing tag that is followed by
// frame. A closing tag followed by other text belongs to the value, and the reading
// is ambiguous.
func (x xmlish) valueEnd(p *parse, at int) (end, next int, st State) {
	first := p.index(x.parClose, at)
	limit := p.index(x.par, at)
	for _, stop := range []string{x.fnClose, x.close} {
		if f := p.index(stop, at); f >= 0 && (limit < 0 || f < limit) {
			limit = f
		}
	}
	if first < 0 || limit >= 0 && limit < first && x.openEnded(p, at, limit, first) {
		if limit < 0 {
			return len(p.text), len(p.text), Truncated
		}
		return limit, limit, Recovered
	}
	for c := first; c >= 0; c = p.index(x.parClose, c+len(x.parClose)) {
		if x.framed(p, c+len(x.parClose)) {
			if c == first {
				return c, c + len(x.parClose), Complete
			}
			return c, c + len(x.parClose), Ambiguous
		}
	}
	return first, first + len(x.parClose), Complete
}

// openEnded says that the tag at limit really ends a value without closing tag: it
// begins a parameter of its own that is closed, or ends the call.
func (x xmlish) openEnded(p *parse, at, limit, first int) bool {
	if p.at(x.par, limit) {
		return true
	}
	after := limit + len(x.fnClose)
	if p.at(x.close, limit) {
		after = limit + len(x.close)
	}
	k := p.skipSpace(after)
	return k == len(p.text) || p.at(x.close, k) || p.at(x.fn, k) || x.open != "" && p.at(x.open, k)
}

// framed says whether position i is followed by something of the frame.
func (x xmlish) framed(p *parse, i int) bool {
	k := p.skipSpace(i)
	return k == len(p.text) || p.at(x.par, k) || p.at(x.fnClose, k) || p.at(x.close, k) || p.at(x.fn, k)
}

func (x xmlish) nextFrame(p *parse, i int) int {
	best := len(p.text)
	for _, m := range []string{x.fnClose, x.close, x.fn, x.open} {
		if m == "" {
			continue
		}
		j := p.index(m, i)
		if j >= 0 && m == x.fnClose {
			j += len(m)
		}
		if j >= 0 && j < best {
			best = j
		}
	}
	return best
}

// trimLine removes one newline at each end.
func trimLine(s string) string {
	if s == "\n" {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "\n"), "\n")
}

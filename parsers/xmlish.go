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
	others            [][2]string // in our dialect: wrappers that models write in place of open and close
	floor             State       // the best state of the calls of this block
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
	if p.opt.Dialect == Ours {
		return x.nearest(p, at, i)
	}
	if p.k.Bare && !x.needOpen {
		if f := p.index(x.fn, at); f >= 0 && (i < 0 || f < i) {
			return f
		}
	}
	return i
}

// nearest is the next block in our dialect: in the family's wrapper, which is at i, in
// another one, or a bare call. A bare call names a declared tool if a list is given.
func (x xmlish) nearest(p *parse, at, i int) int {
	for f := p.index(x.fn, at); f >= 0 && (i < 0 || f < i); f = p.index(x.fn, f+1) {
		if p.tools.known() && x.declared(p, f) || !p.tools.known() && !x.needOpen {
			i = f
			break
		}
	}
	if !p.tools.known() {
		return i
	}
	for _, o := range x.others {
		for j := p.index(o[0], at); j >= 0 && (i < 0 || j < i); j = p.index(o[0], j+1) {
			if k := p.skipSpace(j + len(o[0])); k < len(p.text) && p.at(x.fn, k) && x.declared(p, k) {
				i = j
			}
		}
	}
	return i
}

// declared says that the tag of a call at f names a tool of the list, or that there is no list.
func (x xmlish) declared(p *parse, f int) bool {
	if !p.tools.known() {
		return true
	}
	name, _, _, _ := tag(p.text, f+len(x.fn))
	return p.tools.has(strings.TrimSpace(name))
}

func (x xmlish) block(p *parse, i int) int {
	at := i
	if p.opt.Dialect == Ours {
		x = x.as(p, i)
	}
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
			next := x.strays(p, i, j)
			if next < 0 {
				return at
			}
			p.fault(at, next, "stray_text", "text between the calls of a block")
			p.seg(InFault, at, next)
			at, begin = next, next
		}
	}
}

// as is x for the block at i: in our dialect another wrapper, or none where one is needed, is
// read, and the calls are recovered.
func (x xmlish) as(p *parse, i int) xmlish {
	for _, o := range x.others {
		if !p.at(x.open, i) && p.at(o[0], i) {
			x.open = o[0]
			x.close = o[1]
			x.floor = Recovered
			return x
		}
	}
	if x.needOpen && p.at(x.fn, i) {
		x.floor = Recovered
		for _, o := range x.others { // the closing tag may still be there
			if c := p.index(o[1], i); c >= 0 && p.index(x.close, i) < 0 {
				x.close = o[1]
			}
		}
	}
	return x
}

// strays is where a block that began at i goes on behind text at j that is no call: at the
// next call, or at its end. -1 says that the block is over.
func (x xmlish) strays(p *parse, i, j int) int {
	if p.opt.Dialect != Ours || !p.at(x.open, i) || x.open == "" {
		return -1
	}
	c, o := p.index(x.close, j), p.index(x.open, j)
	if c < 0 || o >= 0 && o < c {
		return -1
	}
	for f := p.index(x.fn, j); f >= 0 && f < c; f = p.index(x.fn, f+1) {
		if x.declared(p, f) {
			return f
		}
	}
	return c
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

// tag reads a tag's name and attributes; i follows the prefix. ok is false when
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

// function reads one call whose tag is at j; the call's bytes begin at begin.
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
	call := func(a, b int, args string, st State) { p.call(a, b, name, args, worse(st, x.floor)) }
	if x.selfClosing && strings.HasSuffix(strings.TrimSpace(attrs), "/") {
		call(begin, at, "{}", Complete)
		return at
	}
	if s := p.skipSpace(at); (x.json || p.opt.Dialect == Ours) && s < len(p.text) && p.text[s] == '{' {
		if end, err := (scanner{text: p.text}).value(s, 0); err == nil {
			if e := p.skipSpace(end); p.at(x.fnClose, e) {
				st := Complete
				if !x.json {
					st = Recovered // an object in place of the parameters
				}
				call(begin, e+len(x.fnClose), p.text[s:end], st)
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
			call(begin, k, x.done(p, name, ps), worse(state, Truncated))
			return k
		case p.at(x.fnClose, k):
			k += len(x.fnClose)
			call(begin, k, x.done(p, name, ps), state)
			return k
		case p.at(x.par, k):
			var one []pair
			var st State
			one, at, st = x.parameter(p, name, k)
			ps, state = append(ps, one...), worse(state, st)
		case p.at(x.close, k) || p.at(x.fn, k) || x.open != "" && p.at(x.open, k):
			call(begin, k, x.done(p, name, ps), worse(state, Recovered))
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

// parameter reads the parameter whose tag is at k.
func (x xmlish) parameter(p *parse, tool string, k int) ([]pair, int, State) {
	key, attrs, at, ok := tag(p.text, k+len(x.par))
	if !ok {
		if p.opt.Dialect == Ours {
			return nil, max(at, k+len(x.par)), worse(Malformed, cutAt(at, len(p.text))) // a value without its key
		}
		return nil, max(at, k+len(x.par)), worse(Recovered, cutAt(at, len(p.text)))
	}
	end, next, state := x.valueEnd(p, tool, at)
	raw := p.text[at:end]
	if state == Truncated && p.k.DropCut {
		return nil, next, state
	}
	if x.newlines {
		raw = trimLine(raw)
	}
	p.keep(key, at, end)
	if !p.keyLike(tool, strings.TrimSpace(key)) {
		state = worse(state, Malformed)
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
func (x xmlish) valueEnd(p *parse, tool string, at int) (end, next int, st State) {
	first := p.index(x.parClose, at)
	limit := p.index(x.par, at)
	for p.opt.Dialect == Ours && limit >= 0 && first >= 0 && limit < first && !x.parameterTag(p, tool, limit) {
		limit = p.index(x.par, limit+1)
	}
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
		if x.framed(p, tool, c+len(x.parClose)) {
			if i := p.index(x.par, at); c == first && !(p.opt.Dialect == Ours && i >= 0 && i < c) {
				return c, c + len(x.parClose), Complete
			}
			return c, c + len(x.parClose), Ambiguous
		}
	}
	return first, first + len(x.parClose), Complete
}

// openEnded says that the tag at limit really ends a value without closing tag: it
// begins a parameter that is closed, or ends the call.
func (x xmlish) openEnded(p *parse, at, limit, first int) bool {
	if p.at(x.par, limit) {
		return true
	}
	after := limit + len(x.fnClose)
	if p.at(x.close, limit) {
		after = limit + len(x.close)
	}
	if p.opt.Dialect == Ours && !x.plausible(p, after) {
		return false
	}
	k := p.skipSpace(after)
	return k == len(p.text) || p.at(x.close, k) || p.at(x.fn, k) || x.open != "" && p.at(x.open, k)
}

// framed says whether position i is followed by something of the frame.
func (x xmlish) framed(p *parse, tool string, i int) bool {
	k := p.skipSpace(i)
	if p.opt.Dialect == Ours && k < len(p.text) {
		switch {
		case p.at(x.par, k):
			_, _, _, ok := tag(p.text, k+len(x.par))
			return ok
		case p.at(x.fnClose, k):
			return x.plausible(p, k+len(x.fnClose))
		case p.at(x.close, k):
			return x.plausible(p, k+len(x.close))
		case p.at(x.fn, k):
			return x.declared(p, k)
		}
		return false
	}
	return k == len(p.text) || p.at(x.par, k) || p.at(x.fnClose, k) || p.at(x.close, k) || p.at(x.fn, k)
}

// parameterTag says that a parameter of the tool may begin at k: its tag is whole, and the
// schema knows the key if it names any.
func (x xmlish) parameterTag(p *parse, tool string, k int) bool {
	key, _, _, ok := tag(p.text, k+len(x.par))
	return ok && p.tools.params(tool).Declares(strings.TrimSpace(key))
}

// plausible says that a call may end before i: no value ends behind it that began before.
func (x xmlish) plausible(p *parse, i int) bool {
	end := p.index(x.parClose, i)
	if end < 0 {
		return true
	}
	par, fn := p.index(x.par, i), p.index(x.fn, i)
	return par >= 0 && par < end || fn >= 0 && fn < end
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

// trimLine removes one newline at each end. Where the first is CR LF, so may be the last.
func trimLine(s string) string {
	if s == "\n" || s == "\r\n" {
		return ""
	}
	if rest, ok := strings.CutPrefix(s, "\r\n"); ok {
		if body, ok := strings.CutSuffix(rest, "\r\n"); ok {
			return body
		}
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "\n"), "\n")
}

package parsers

// Apertus is Apertus 2509: a list of objects whose only key is the tool's name.
var Apertus = grammar{
	name:  "apertus",
	think: think{open: "<|inner_prefix|>", close: "<|inner_suffix|>"}.until(apertusOpen),
	read:  readApertus,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + apertusOpen + "[" + join("", calls, ", ", func(_ int, c Call) string {
			return "{" + quote(c.Name) + ": " + c.Arguments + "}"
		}) + "]" + apertusClose
	},
}.family()

const apertusOpen, apertusClose = "<|tools_prefix|>", "<|tools_suffix|>"

func readApertus(p *parse) {
	at := p.pos
	for {
		i := p.index(apertusOpen, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		at = apertusBlock(p, i)
	}
}

func apertusBlock(p *parse, i int) int {
	sc := scanner{text: p.text}
	j := p.skipSpace(i + len(apertusOpen))
	if j == len(p.text) || p.text[j] != '[' {
		p.refuse(i, j, "malformed", "no list after %s", apertusOpen)
		return j
	}
	from := i
	at := j + 1
	closed := false
	for {
		k := p.skipSpace(at)
		if k < len(p.text) && (p.text[k] == ']' || p.text[k] == ',') {
			at = k + 1
			closed = p.text[k] == ']'
			if closed {
				break
			}
			continue
		}
		ms, end, err := sc.object(k)
		if next := p.index(", {\"", k+1); err == errBad && p.k.Repair && next >= 0 {
			p.refuse(from, next, "malformed", "item of the list: %v", err)
			from, at = next, next
			continue
		}
		if err != nil {
			return apertusCut(p, from, k, end, err)
		}
		for n, m := range ms {
			b := m.b
			if n == len(ms)-1 {
				b = end
			}
			p.call(from, b, m.key, p.text[m.a:m.b], Complete)
			from = b
		}
		from, at = end, end
	}
	k := p.skipSpace(at)
	if p.at(apertusClose, k) {
		at = k + len(apertusClose)
	} else if n := len(p.out.Calls); n > 0 {
		p.out.Calls[n-1].State = worse(p.out.Calls[n-1].State, Recovered)
	}
	p.frame(from, at)
	return at
}

// apertusCut keeps the name of a call that the end of the text cut.
func apertusCut(p *parse, from, k, end int, err error) int {
	sc := scanner{text: p.text}
	if err == errCut && k < len(p.text) && p.opt.Dialect != SGLang {
		if q, qerr := sc.str(p.skipSpace(k + 1)); qerr == nil && p.skipSpace(q) < len(p.text) {
			name, _ := unquote(p.text[p.skipSpace(k+1):q])
			args := p.text[p.skipSpace(p.skipSpace(q)+1):]
			if fixed, ok := closeJSON(args); ok {
				p.call(from, len(p.text), name, fixed, Truncated)
				return len(p.text)
			}
		}
	}
	stop := len(p.text)
	if c := p.index(apertusClose, k); c >= 0 {
		stop = c + len(apertusClose)
	}
	p.refuse(from, stop, "malformed", "list of calls: %v at byte %d", err, end)
	return stop
}

// closeJSON closes what a cut left open, dropping the member that was being written.
func closeJSON(s string) (string, bool) {
	var open []byte
	inString := false
	good, goodOpen := -1, ""
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open = append(open, c+2)
			good, goodOpen = i+1, string(open)
		case c == '}' || c == ']':
			if len(open) == 0 {
				return "", false
			}
			open = open[:len(open)-1]
			good, goodOpen = i+1, string(open)
			if len(open) == 0 {
				return s[:i+1], isJSON(s[:i+1])
			}
		case c == ',':
			good, goodOpen = i, string(open)
		}
	}
	tail := func(o string) string {
		b := []byte(o)
		for l, r := 0, len(b)-1; l < r; l, r = l+1, r-1 {
			b[l], b[r] = b[r], b[l]
		}
		return string(b)
	}
	for _, try := range []string{s + `"`, s, s + `null`} {
		if inString == (len(try) == len(s)+1) {
			if t := try + tail(string(open)); isJSON(t) {
				return t, true
			}
		}
	}
	if good < 0 {
		return "", false
	}
	t := s[:good] + tail(goodOpen)
	return t, isJSON(t)
}

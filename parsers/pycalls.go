package parsers

import (
	"strings"

	"hermes/internal/pyvalue"
)

// pycall reads f(k=literal, …) at i. name is empty when there is no call; p.bytes says that a
// value is bytes, which the peers refuse.
func (p *parse) pycall(i int, o pyvalue.Options) (name, args string, end int, err error) {
	p.bytes = false
	o.Odd = &p.bytes
	j := i
	for j < len(p.text) && (isWord(p.text[j]) || p.text[j] == '.' || p.text[j] == '-') {
		j++
	}
	name = p.text[i:j]
	k := p.skipSpace(j)
	if k == len(p.text) {
		return name, "", k, errCut
	}
	if name == "" || p.text[k] != '(' || name[0] >= '0' && name[0] <= '9' {
		return "", "", i, errBad
	}
	var ps []pair
	for k++; ; {
		k = p.skipSpace(k)
		if k == len(p.text) {
			return name, p.object(ps), k, errCut
		}
		if p.text[k] == ')' {
			return name, p.object(ps), k + 1, nil
		}
		w := k
		for w < len(p.text) && isWord(p.text[w]) {
			w++
		}
		key := p.text[k:w]
		e := p.skipSpace(w)
		if e == len(p.text) {
			return name, p.object(ps), e, errCut
		}
		if key == "" || p.text[e] != '=' {
			return name, "", e, errBad
		}
		v, n, err := pyvalue.Read(p.text[e+1:], o)
		if err == pyvalue.ErrCut {
			return name, p.object(ps), len(p.text), errCut
		}
		if err != nil || p.bytes && p.opt.Dialect != Ours {
			return name, "", e + 1 + n, errBad
		}
		ps = append(ps, pair{key, v})
		k = p.skipSpace(e + 1 + n)
		if k < len(p.text) && p.text[k] == ',' {
			k++
		} else if k < len(p.text) && p.text[k] != ')' {
			return name, "", k, errBad
		}
	}
}

// stringPrefixes are the words that may be in front of a string.
const stringPrefixes = "rb rB Rb RB br bR Br BR u U"

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// pylist reads [f(…), g(…)] at i, or calls one a line when open is not "[". It
// returns the end, or an error when there is no such list.
func (p *parse) pylist(i int, o pyvalue.Options) (int, error) {
	if i >= len(p.text) || p.text[i] != '[' {
		return i, errBad
	}
	type one struct {
		name, args string
		a, b       int
		cut, odd   bool
	}
	var calls []one
	start, at := i, i+1
	for {
		at = p.skipSpace(at)
		if at < len(p.text) && p.text[at] == ']' && len(calls) > 0 {
			at++
			break
		}
		name, args, end, err := p.pycall(at, o)
		if err == errCut && (len(calls) > 0 || strings.Contains(p.text[at:end], "(")) {
			if name == "" || !strings.Contains(p.text[at:end], "(") {
				break
			}
			calls = append(calls, one{name, args, start, end, true, p.bytes})
			at = end
			break
		}
		if err != nil {
			return end, err
		}
		calls = append(calls, one{name, args, start, end, false, p.bytes})
		start, at = end, p.skipSpace(end)
		if at < len(p.text) && p.text[at] == ',' {
			at++
		} else if at == len(p.text) {
			break
		} else if p.text[at] != ']' {
			return at, errBad
		}
	}
	if len(calls) == 0 {
		return at, errCut
	}
	closed := p.text[at-1] == ']' && !calls[len(calls)-1].cut
	if !closed && p.k.NeedClose {
		return at, errCut
	}
	for _, c := range calls {
		st := Complete
		if c.cut {
			st = Truncated
		} else if !closed && c == calls[len(calls)-1] {
			st = Recovered
		}
		p.odd, p.also = p.odd || c.odd, stringPrefixes
		p.call(c.a, c.b, c.name, c.args, st)
	}
	p.frame(calls[len(calls)-1].b, at)
	return at, nil
}

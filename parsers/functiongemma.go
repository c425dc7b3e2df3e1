package parsers

import "strings"

// escaped is how vLLM reads a call of FunctionGemma: only values between two marks count, as
// JSON where they are; a call that is not closed goes to the end of the text.
func (g gemma) escaped(p *parse, i int) int {
	from := i + len(g.open)
	j := from + len("call:")
	n := j
	for n < len(p.text) && isWord(p.text[n]) {
		n++
	}
	if !p.at("call:", from) || n == j || !p.at("{", n) {
		p.refuse(i, from, "malformed", "no call after %s", g.open)
		return from
	}
	body := p.text[n+1:]
	end := len(p.text)
	st := Truncated
	if e := p.index("}"+g.close, n); e >= 0 {
		body = p.text[n+1 : e]
		end = e + 1 + len(g.close)
		st = Complete
	}
	var ps []pair
	for {
		m := strings.Index(body, ":"+g.mark)
		if m < 0 {
			break
		}
		k := m
		for k > 0 && isWord(body[k-1]) {
			k--
		}
		key, rest := body[k:m], body[m+1+len(g.mark):]
		value, after, ok := strings.Cut(rest, g.mark)
		if !ok {
			break
		}
		body = after
		if key == "" {
			continue
		}
		if isJSON(value) {
			ps = append(ps, pair{key, strings.TrimSpace(value)})
		} else {
			ps = append(ps, pair{key, quote(value)})
		}
	}
	p.call(i, end, p.text[j:n], p.object(ps), st)
	return end
}

package parsers

// Olmo3 is Olmo 3: one Python call a line between tags.
var Olmo3 = grammar{
	name:  "olmo3",
	think: plainThink.until("<function_calls>"),
	read:  readOlmo,
	format: func(content string, calls []Call) string {
		if len(calls) == 0 {
			return content
		}
		return content + "<function_calls>\n" + pyText(calls, "\n") + "\n</function_calls>"
	},
}.family()

func readOlmo(p *parse) {
	const open, close = "<function_calls>", "</function_calls>"
	i := p.index(open, p.pos)
	if i < 0 {
		p.content(p.pos, len(p.text))
		return
	}
	p.content(p.pos, i)
	p.frame(i, i+len(open))
	at := i + len(open)
	for {
		k := p.skipSpace(at)
		if k == len(p.text) {
			return
		}
		if p.at(close, k) {
			p.frame(at, k+len(close))
			p.content(k+len(close), len(p.text))
			return
		}
		if c := p.text[k]; c == ',' || c == '[' || c == ']' {
			at = k + 1
			continue
		}
		name, args, end, err := p.pycall(k, p.pyOptions())
		if err == nil {
			p.odd, p.also = p.odd || p.bytes, stringPrefixes
			p.call(at, end, name, args, Complete)
			at = end
			continue
		}
		if err == errCut && name != "" && args != "" && !p.k.NeedClose && p.opt.Dialect != VLLM {
			p.call(at, len(p.text), name, args, Truncated)
			return
		}
		stop := nextOr(p, close, k)
		if n := p.index("\n", max(k, min(end, len(p.text)))); n >= 0 && n < stop {
			stop = n
		}
		p.refuse(at, stop, "malformed", "a call that is no Python")
		at = stop
	}
}

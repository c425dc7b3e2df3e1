package parsers

import "strings"

// Dots is rednote dots: an object or elements between tags; names must be declared.
var Dots = grammar{
	name:  "dots",
	think: plainThink.until(dotsOpen),
	read:  readDots,
	format: func(content string, calls []Call) string {
		return join(content, calls, "", func(_ int, c Call) string { return dotsOpen + jsonText(c, "arguments") + dotsClose })
	},
}.family()

const dotsOpen, dotsClose = "<dots_function_call>", "</dots_function_call>"

func readDots(p *parse) {
	t := tagged{open: dotsOpen, close: dotsClose, keys: nameArguments}
	x := xmlish{open: dotsOpen, close: dotsClose, fn: "<invoke name=", fnClose: "</invoke>", par: "<parameter name=", parClose: "</parameter>", needOpen: true}
	at := p.pos
	if p.k.EatStray {
		p.stray = dotsClose
	}
	for {
		i := p.index(dotsOpen, at)
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		j := p.skipSpace(i + len(dotsOpen))
		end := p.index(dotsClose, j)
		if p.opt.Dialect == VLLM && strings.HasPrefix(p.text[j:], "{") && (end < 0 || !isJSON(p.text[j:end])) {
			stop := len(p.text)
			if end >= 0 {
				stop = end + len(dotsClose)
			}
			p.refuse(i, stop, "malformed", "%s without one object and %s", dotsOpen, dotsClose)
			at = stop
			continue
		}
		switch {
		case strings.HasPrefix(p.text[j:], "{"):
			at = t.block(p, i)
		case p.k.EatStray && end >= 0 && !strings.Contains(p.text[j:end], x.fn): // no call at all
			p.vanish(i, i+len(dotsOpen))
			p.content(i+len(dotsOpen), end)
			p.vanish(end, end+len(dotsClose))
			at = end + len(dotsClose)
		default:
			at = x.block(p, i)
		}
	}
}

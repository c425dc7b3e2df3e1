package parsers

import "strings"

// Granite4 is Granite 4.0: as Hermes, text outside the tags is kept everywhere.
var Granite4 = granite4Grammar().family()

func granite4Grammar() grammar {
	g := hermesGrammar("granite4")
	read := g.read
	g.read = func(p *parse) {
		if p.opt.Dialect == VLLM && !paired(p.rest(), "<tool_call>", "</tool_call>") {
			p.content(p.pos, len(p.text))
			p.fault(p.pos, len(p.text), "malformed", "tags that do not close one another")
			return
		}
		read(p)
	}
	return g
}

// paired says that opening and closing marks follow each other in turn, with text between.
func paired(text, open, close string) bool {
	for {
		i, e := strings.Index(text, open), strings.Index(text, close)
		switch {
		case i < 0:
			return e < 0
		case e < i+len(open)+1:
			return false
		}
		if n := strings.Index(text[i+len(open):], open); n >= 0 && i+len(open)+n < e {
			return false
		}
		text = text[e+len(close):]
	}
}

package parsers

import "strings"

// Gigachat35 is GigaChat 3.5: the markup of DeepSeek under its own name.
var Gigachat35 = gigachat35().family()

// gigachatEnds are the marks behind a message, which are no content.
var gigachatEnds = []string{"<|message_sep|>", "</s>"}

func gigachat35() grammar {
	g := dsml("gigachat35", "｜GCML｜", "tool_calls", "function_calls", "_tool_calls")
	g.read = withoutEnds(g.read, gigachatEnds)
	return g
}

// withoutEnds is read for a text that ends before the marks at its end.
func withoutEnds(read func(*parse), marks []string) func(*parse) {
	return func(p *parse) {
		end := len(p.text)
		for again := true; again; {
			again = false
			for _, m := range marks {
				if t := strings.TrimRight(p.text[p.pos:end], " \t\r\n"); strings.HasSuffix(t, m) {
					end, again = p.pos+len(t)-len(m), true
				}
			}
		}
		if end == len(p.text) {
			read(p)
			return
		}
		p.before(end, read)
		p.vanish(end, len(p.text))
	}
}

package parsers

import "strings"

// Llama3 is Llama 3.1, 3.2 and 4 writing JSON; Llama4 is its second name.
var (
	Llama3 = llamaGrammar("llama3_json").family()
	Llama4 = llamaGrammar("llama4_json").family()
)

const pythonTag = "<|python_tag|>"

func llamaGrammar(name string) grammar {
	return grammar{
		name:  name,
		think: plainThink.until(pythonTag, `{"name"`),
		read:  readLlama,
		format: func(content string, calls []Call) string {
			return join(content, calls, "; ", func(_ int, c Call) string { return jsonText(c, "parameters") })
		},
	}
}

// readLlama tries every brace outside an object that was read.
func readLlama(p *parse) {
	at := p.pos
	keys := nameArguments
	if p.opt.Dialect == SGLang {
		keys = nameParameters
		s := p.skipSpace(at)
		if !strings.HasPrefix(p.text[s:], "{") && p.index(pythonTag, at) < 0 {
			p.content(at, len(p.text))
			return
		}
	}
	for {
		i := p.index("{", at)
		if i < 0 {
			break
		}
		tag := at
		if t := p.index(pythonTag, at); t >= 0 && t < i {
			p.content(at, t)
			p.frame(t, t+len(pythonTag))
			tag = t + len(pythonTag)
		}
		c := p.jsonCall(i, keys)
		if c.err != nil {
			end := max(i+1, c.end)
			if c.err == errCut || c.err == errBad && c.why == errBad.Error() {
				end = i + 1
			}
			p.content(tag, i)
			p.seg(InContent, i, end)
			if strings.HasPrefix(p.text[i:], `{"name"`) {
				p.fault(i, end, "malformed", "call object: %s", c.why)
			}
			p.bad = true
			at = end
			continue
		}
		sep := strings.TrimSpace(p.text[tag:i])
		if len(p.out.Calls) > 0 && (sep == ";" || sep == "," || sep == "") {
			p.frame(tag, i)
		} else {
			p.content(tag, i)
		}
		p.call(i, c.end, c.name, c.args, c.state)
		at = c.end
	}
	p.content(at, len(p.text))
}

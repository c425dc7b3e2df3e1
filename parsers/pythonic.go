package parsers

import (
	"cmp"
	"slices"
	"strings"

	"hermes/internal/pyvalue"
)

// Pythonic is Llama 3.2 and ToolACE writing Python; Llama4Pythonic puts it between
// python tags; LFM2 has its own tags; Olmo3 writes one call a line.
var (
	Pythonic       = pythonGrammar("pythonic", "", "").family()
	Llama4Pythonic = pythonGrammar("llama4_pythonic", "<|python_start|>", "<|python_end|>").family()
)

func pythonGrammar(name, open, close string) grammar {
	return grammar{
		name:  name,
		think: plainThink,
		read:  func(p *parse) { readPythonic(p, open, close) },
		format: func(content string, calls []Call) string {
			if len(calls) == 0 {
				return content
			}
			return content + "[" + pyText(calls, ", ") + "]"
		},
	}
}

func (p *parse) pyOptions() pyvalue.Options {
	return pyvalue.Options{RawNewlines: p.k.Repair, PythonOnly: p.opt.Dialect == SGLang, NoSets: p.opt.Dialect == SGLang}
}

func readPythonic(p *parse, open, close string) {
	from := p.skipSpace(p.pos)
	if p.at(open, from) {
		p.frame(p.pos, from+len(open))
		from = p.skipSpace(from + len(open))
	}
	whole := from
	any := false
	for i := p.index("[", from); i >= 0; i = p.index("[", max(i+1, whole)) {
		if p.opt.Dialect == VLLM && i > whole {
			break
		}
		if p.spent > 8*len(p.text)+1<<16 {
			break
		}
		end, err := p.pylist(i, p.pyOptions())
		p.spent += end - i
		if err != nil {
			if i == whole {
				p.fault(i, end, "malformed", "list of calls: %v", err)
			}
			continue
		}
		k := p.skipSpace(end)
		tail := close
		tail = cmp.Or(tail, "<|python_end|>")
		if p.at(tail, k) {
			p.frame(end, k+len(tail))
			k += len(tail)
			end = k
		}
		if p.opt.Dialect == VLLM && k < len(p.text) {
			p.out.Calls, p.segs = nil, nil
			break
		}
		if i > whole && strings.TrimSpace(p.text[whole:i]) != "" {
			p.doubt()
		}
		if any && p.opt.Dialect == Ours {
			p.out.Calls, p.out.Faults, p.segs = nil, nil, slices.DeleteFunc(p.segs, func(s segment) bool { return s.a >= p.pos })
			p.fault(i, end, string(Ambiguous), "a second list of calls amid text: none is read")
			any = false
			break
		}
		p.pyText(open, whole, i)
		whole, any = end, true
		if p.opt.Dialect == VLLM {
			break
		}
	}
	if any {
		p.content(whole, len(p.text))
	} else {
		p.content(p.pos, len(p.text))
	}
}

// doubt marks complete calls that stand amid prose.
func (p *parse) doubt() {
	for n := range p.out.Calls {
		if c := &p.out.Calls[n]; c.State == Complete {
			c.State = Ambiguous
			p.fault(c.Start, c.End, string(Ambiguous), "call of %q amid text", c.Name)
		}
	}
}

// pyText is the text before a list; the opening tag in it is frame.
func (p *parse) pyText(open string, a, b int) {
	open = cmp.Or(open, "<|python_start|>")
	if i := p.index(open, a); i >= 0 && i < b {
		p.content(a, i)
		p.frame(i, i+len(open))
		a = i + len(open)
	}
	p.content(a, b)
}

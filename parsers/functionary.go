package parsers

import "strings"

// FunctionaryV31 writes a call as an element around its arguments, and code for the tool
// python behind a tag. FunctionaryV32 writes messages to recipients: to all, or to a tool; the
// prompt ends in the mark of the first one.
var (
	FunctionaryV31 = grammar{
		name:  "functionary_v3_1",
		think: plainThink.until(functionaryOpen),
		read:  readFunctionary31,
		format: func(content string, calls []Call) string {
			return join(content, calls, "", func(_ int, c Call) string {
				return functionaryOpen + c.Name + ">" + c.Arguments + functionaryClose
			})
		},
	}.family()
	FunctionaryV32 = grammar{
		name: "functionary_v3_2",
		read: readFunctionary32,
		format: func(content string, calls []Call) string {
			var parts []string
			if content != "" || len(calls) == 0 {
				parts = append(parts, "all\n"+content)
			}
			for _, c := range calls {
				parts = append(parts, c.Name+"\n"+c.Arguments)
			}
			return strings.Join(parts, functionaryTo)
		},
	}.family()
)

const functionaryOpen, functionaryClose, functionaryCode, functionaryTo = "<function=", "</function>", "<|python_tag|>", ">>>"

func readFunctionary31(p *parse) {
	code := p.pos - 1 // where the tag of code is next: it is one everywhere
	for at := p.pos; at < len(p.text); {
		i, mark := p.nextOf([]string{functionaryOpen}, at)
		if code < at {
			code = len(p.text)
			if n := strings.Index(p.text[at:], functionaryCode); n >= 0 {
				code = at + n
			}
		}
		if code < i {
			i, mark = code, functionaryCode
		}
		p.content(at, i)
		switch mark {
		case "":
			return
		case functionaryCode:
			end := nextOr(p, functionaryOpen, i+len(mark))
			p.code(i, end, p.text[i+len(mark):end])
			at = end
			continue
		}
		from := i + len(mark)
		n := strings.IndexByte(p.text[from:], '>')
		if n < 0 || !nameLike(p.text[from:from+n]) {
			if n < 0 && nameLike(p.text[from:]+"x") {
				p.refuse(i, len(p.text), "truncated", "the text ends in the name of a call")
				return
			}
			p.refuse(i, from, "malformed", "%s without a name", functionaryOpen)
			at = from
			continue
		}
		body := from + n + 1
		b, end := body, len(p.text)
		if j, ok := p.objectEnd(body); ok {
			b = p.skipSpace(j)
		}
		closed := p.at(functionaryClose, b)
		if e := p.index(functionaryClose, b); closed || e >= 0 {
			b, end, closed = max(b, e), max(b, e)+len(functionaryClose), true
		} else {
			b = end
		}
		p.rawCall(i, end, p.text[from:body-1], strings.TrimSpace(p.text[body:b]), closed)
		at = end
	}
}

// objectEnd is the end of the whole object that begins behind from, blanks before it allowed.
func (p *parse) objectEnd(from int) (int, bool) {
	j := p.skipSpace(from)
	if j >= len(p.text) || p.text[j] != '{' {
		return from, false
	}
	end, err := scanner{text: p.text}.value(j, 0)
	if err != nil {
		p.spent += end - j
	}
	return end, err == nil
}

// code is a call of the tool python at a..b, whose code is written as it is.
func (p *parse) code(a, b int, text string) {
	if t := strings.TrimSpace(text); isJSON(t) && strings.HasPrefix(t, "{") {
		p.rawCall(a, b, "python", t, true)
		return
	}
	p.also = "python"
	p.call(a, b, "python", `{"code": `+quote(text)+`}`, Complete)
}

func readFunctionary32(p *parse) {
	p.own, p.suffix = true, "all"
	for at := p.pos; at < len(p.text); {
		from := at
		if p.at(functionaryTo, at) {
			from += len(functionaryTo)
		}
		to, body := p.functionaryHeader(from)
		end := p.functionaryNext(body)
		switch {
		case to == "" && (from > at || at == p.pos) && p.functionaryCut(from):
			p.frame(at, len(p.text))
			p.fault(at, len(p.text), "truncated", "the text ends in a header")
			return
		case to == "":
			p.content(at, end)
		case to == "all":
			p.frame(at, body)
			p.content(body, end)
		default:
			j, whole := p.objectEnd(body)
			if whole {
				end = p.functionaryNext(j)
			}
			text := p.text[body:end]
			if to == "python" && !strings.HasPrefix(strings.TrimSpace(text), "{") {
				p.code(at, end, text)
				break
			}
			if k := p.skipSpace(j); whole && k < end {
				p.rawCall(at, j, to, strings.TrimSpace(p.text[body:j]), true)
				p.content(k, end)
				break
			}
			p.rawCall(at, end, to, strings.TrimSpace(text), whole || end < len(p.text))
		}
		at = end
	}
}

// functionaryHeader reads the recipient of the message that begins at from, and where its text
// does: all, a declared tool, or a name in front of an object.
func (p *parse) functionaryHeader(from int) (to string, body int) {
	line, rest, ok := strings.Cut(p.text[from:min(len(p.text), from+512)], "\n")
	body = from + len(line) + 1
	line = strings.TrimSuffix(line, "\r")
	if !ok || !nameLike(line) {
		return "", from
	}
	if line == "all" || p.tools.has(line) || strings.HasPrefix(strings.TrimLeft(rest, " \r\n\t"), "{") {
		return line, body
	}
	return "", from
}

// functionaryNext is where the next message begins at or behind from.
func (p *parse) functionaryNext(from int) int {
	for i := from; ; i++ {
		n := strings.Index(p.text[min(i, len(p.text)):], functionaryTo)
		if n < 0 {
			return len(p.text)
		}
		i += n
		if to, _ := p.functionaryHeader(i + len(functionaryTo)); to != "" || p.functionaryCut(i+len(functionaryTo)) {
			return i
		}
	}
}

// functionaryCut says that the text ends in the header that begins at from.
func (p *parse) functionaryCut(from int) bool {
	line := p.text[from:]
	return !strings.Contains(line, "\n") && (line == "all" || p.tools.has(line))
}

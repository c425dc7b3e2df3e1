package parsers

import (
	"strconv"
	"strings"
)

// KimiK3 is Kimi K3: channels of open and close tokens.
var KimiK3 = grammar{
	name: "kimi_k3",
	read: readXTML,
	format: func(content string, calls []Call) string {
		out := ""
		if content != "" {
			out = "<|open|>response<|sep|>" + content + "<|close|>response<|sep|>"
		}
		if len(calls) == 0 {
			return out
		}
		return out + "<|open|>tools<|sep|>" + join("", calls, "", xtmlText) + "<|close|>tools<|sep|>"
	},
	id: func(p *parse, i int, c *Call) {
		if c.ID == "" {
			c.ID = c.Name + ":" + strconv.Itoa(p.opt.CallsBefore+i)
		}
	},
}.family()

var (
	xtmlEscape   = strings.NewReplacer("&", "&amp;", `"`, "&quot;")
	xtmlUnescape = strings.NewReplacer("&amp;", "&", "&quot;", `"`)
)

func xtmlText(i int, c Call) string {
	var b strings.Builder
	b.WriteString(`<|open|>call tool="` + xtmlEscape.Replace(c.Name) + `" index="` + strconv.Itoa(i+1) + `"<|sep|>`)
	for _, a := range arguments(c) {
		kind := "object"
		if a.isText {
			kind = "string"
		}
		b.WriteString(`<|open|>argument key="` + xtmlEscape.Replace(a.key) + `" type="` + kind + `"<|sep|>` + a.text + "<|close|>argument<|sep|>")
	}
	b.WriteString("<|close|>call<|sep|>")
	return b.String()
}

const xOpen, xClose, xSep = "<|open|>", "<|close|>", "<|sep|>"

// readXTML reads the channels one after the other.
func readXTML(p *parse) {
	p.own = true
	channel := "response"
	if p.opt.InReasoning {
		channel = "think"
	}
	for at := p.pos; at < len(p.text); {
		end, mark := p.nextOf([]string{xOpen, xClose}, at)
		switch channel {
		case "think":
			p.reason(at, end)
		case "tools":
			p.frame(at, end)
		default:
			p.content(at, end)
		}
		if mark == "" {
			return
		}
		s := p.index(xSep, end)
		if s < 0 {
			p.refuse(end, len(p.text), "truncated", "the text ends in a tag")
			return
		}
		head := p.text[end+len(mark) : s]
		word, attrs, _ := strings.Cut(head, " ")
		next := s + len(xSep)
		if mark == xOpen && word == "call" && channel != "think" {
			at = xtmlCall(p, end, next, attrs)
			continue
		}
		if mark == xOpen && word == "tools" && channel != "tools" && p.namesTools(end, next) {
			if channel == "think" {
				p.reason(end, next)
			} else {
				p.content(end, next)
			}
			at = next
			continue
		}
		p.frame(end, next)
		at = next
		switch {
		case mark == xOpen:
			channel = word
		case word == channel:
			channel = ""
		}
	}
}

// namesTools says that the mark at..next, which opens the calls, is only named in a text: no
// call, no closing mark and not the end follows.
func (p *parse) namesTools(at, next int) bool {
	k := p.skipSpace(next)
	return p.opt.Dialect == Ours && p.genuine[at] == "" && k < len(p.text) && !p.at(xOpen+"call", k) && !p.at(xClose+"tools", k)
}

func xtmlAttr(attrs, key string) string {
	_, rest, ok := strings.Cut(attrs, key+`="`)
	if !ok {
		return ""
	}
	v, _, _ := strings.Cut(rest, `"`)
	return xtmlUnescape.Replace(v)
}

// xtmlEnd is where the argument that begins at from ends: at the first closing tag, e or a
// later one, behind which the call goes on or ends. sure is false when the value holds tags.
func xtmlEnd(p *parse, from, e int) (end int, sure bool) {
	const tail = xClose + "argument" + xSep
	for c := e; c >= 0; c = p.index(tail, c+len(tail)) {
		k := p.skipSpace(c + len(tail))
		over := p.at(xClose+"call"+xSep, k)
		if next := p.index(tail, k); over && next >= 0 {
			arg := p.index(xOpen+"argument ", k)
			over = arg >= 0 && arg < next // else a value ends behind the call
		}
		if k == len(p.text) || over || p.at(xOpen+"argument ", k) {
			open := p.index(xOpen, from)
			return c, c == e && (open < 0 || open > c)
		}
	}
	return e, true
}

// xtmlWhole is vLLM's reading: a call ends at its closing tag, or is none; text between its
// arguments does not matter.
func xtmlWhole(p *parse, a, at int, name string) int {
	const tail = xClose + "call" + xSep
	end := p.index(tail, at)
	if tools := p.index(xClose+"tools"+xSep, at); end < 0 || tools >= 0 && tools < end || name == "" {
		stop := len(p.text)
		if end >= 0 && name == "" {
			stop = end + len(tail)
		}
		p.refuse(a, stop, "truncated", "a call without its end or its name")
		return stop
	}
	var ps []pair
	for {
		k := p.index(xOpen+"argument ", at)
		if k < 0 || k > end {
			break
		}
		s := p.index(xSep, k)
		if s < 0 || s > end {
			break
		}
		e := p.index(xClose+"argument"+xSep, s)
		if e < 0 || e > end {
			break
		}
		raw, head := p.text[s+len(xSep):e], p.text[k:s]
		v := quote(raw)
		if t := xtmlAttr(head, "type"); t != "string" && t != "" && isJSON(raw) {
			v = strings.TrimSpace(raw)
		}
		ps, at = append(ps, pair{xtmlAttr(head, "key"), v}), e+len(xClose+"argument"+xSep)
	}
	p.call(a, end+len(tail), name, p.object(ps), Complete)
	return end + len(tail)
}

func xtmlCall(p *parse, a, at int, attrs string) int {
	name := xtmlAttr(attrs, "tool")
	if p.opt.Dialect == VLLM {
		return xtmlWhole(p, a, at, name)
	}
	if n := xtmlAttr(attrs, "index"); isInteger(n) {
		p.also = n
	}
	var ps []pair
	st := Complete
	for {
		k := p.skipSpace(at)
		switch {
		case p.at(xClose+"call"+xSep, k):
			k += len(xClose + "call" + xSep)
			p.call(a, k, name, p.object(ps), st)
			return k
		case p.at(xOpen+"argument ", k):
			s := p.index(xSep, k)
			e := -1
			if s >= 0 {
				e = p.index(xClose+"argument"+xSep, s)
			}
			if e >= 0 && p.opt.Dialect == Ours {
				var sure bool
				e, sure = xtmlEnd(p, s+len(xSep), e)
				if !sure {
					st = Ambiguous
				}
			}
			if e < 0 {
				p.call(a, len(p.text), name, p.object(ps), Truncated)
				return len(p.text)
			}
			head, raw := p.text[k:s], p.text[s+len(xSep):e]
			v := quote(raw)
			if t := xtmlAttr(head, "type"); t != "string" && isJSON(raw) {
				v = strings.TrimSpace(raw)
			}
			ps = append(ps, pair{xtmlAttr(head, "key"), v})
			if !p.keyLike(name, xtmlAttr(head, "key")) {
				st = Malformed
			}
			at = e + len(xClose+"argument"+xSep)
		case k == len(p.text):
			p.call(a, k, name, p.object(ps), Truncated)
			return k
		default:
			end, _ := p.nextOf([]string{xOpen, xClose}, k)
			if end == k {
				st := worse(st, Recovered)
				if p.opt.Dialect == Ours && p.at(xOpen, k) && p.index(xSep, k) < 0 { // an argument had begun
					k, st = len(p.text), Truncated
				}
				p.call(a, k, name, p.object(ps), st)
				return k
			}
			p.fault(k, end, "stray_text", "text between the arguments of %q", name)
			at = end
		}
	}
}

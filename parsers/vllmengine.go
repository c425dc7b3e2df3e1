package parsers

import "strings"

// What vLLM's shared engine does with objects that hold a name and arguments: it follows the
// brackets outside of strings and cuts the arguments out as they are written, be they JSON or
// not. Only its dialect reads so.

// readGraniteEngine reads Granite's lists behind either mark; all text around them is content.
func readGraniteEngine(p *parse) {
	for at := p.pos; at < len(p.text); {
		i, mark := p.nextOf([]string{"<|tool_call|>", "<tool_call>"}, at)
		p.content(at, i)
		if mark == "" {
			return
		}
		at = i + len(mark)
		open, from := false, i // of the list; what is not yet in a span
		for inside := true; inside && at < len(p.text); {
			at = p.skipSpace(at)
			if at == len(p.text) {
				break
			}
			switch c := p.text[at]; {
			case !open && c == '[', open && c == ',':
				open = true
				at++
			case open && c == '{':
				end, closed := engineObject(p.text, at)
				p.engineCall(from, at, end, "arguments", closed)
				at, from = end, end
			case open && c == ']':
				at++
				inside = false
			default:
				inside = false
			}
		}
		p.seg(InFrame, from, at)
	}
}

// engineObject is the end of the object at i, by its braces and brackets alone.
func engineObject(text string, i int) (end int, closed bool) {
	return engineEnd(text, i, "{[", "}]")
}

// engineEnd is the end of the object at i, of whose marks only opens and closes are counted.
func engineEnd(text string, i int, opens, closes string) (end int, closed bool) {
	depth, quoted := 0, false
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte(opens, c) >= 0:
			depth++
		case strings.IndexByte(closes, c) >= 0:
			depth = max(depth-1, 0)
			if c == '}' && depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// engineCall adds the call whose object is from..b, in a span that begins at a.
func (p *parse) engineCall(a, from, b int, key string, closed bool) {
	raw := p.text[from:b]
	name := engineName(raw)
	args, st := "{}", Complete
	if text, begun, object := engineMember(raw, key); begun && object {
		args = text
	} else if begun {
		args = raw
		if ms, _, err := (scanner{text: raw}).object(0); err == nil {
			m, _ := lookup(ms, key)
			args = raw[m.a:m.b]
			if t, ok := unquote(args); ok {
				args = t
			}
		}
	}
	switch {
	case !closed:
		st = Truncated
	case !isJSON(args):
		st = Malformed
	case args[0] == '{':
		args = p.within(p.tools.params(name), nil, args)
	}
	if name == "" {
		p.seg(InFault, a, b)
		p.fault(a, b, "malformed", "an object without a name")
		return
	}
	p.call(a, b, name, args, st)
}

// engineName is the first name that an object holds, at any depth.
func engineName(raw string) string {
	for {
		i := strings.Index(raw, `"name"`)
		if i < 0 {
			return ""
		}
		raw = raw[i+len(`"name"`):]
		rest, ok := strings.CutPrefix(strings.TrimLeft(raw, " \t\r\n"), ":")
		if !ok {
			continue
		}
		rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), `"`)
		if !ok {
			continue
		}
		if n := strings.IndexByte(rest, '"'); n >= 0 {
			return rest[:n]
		}
	}
}

// engineMember is the text of an object's member, to its closing bracket or the end of raw.
// begun is false when there is none yet; object when it is no object.
func engineMember(raw, key string) (text string, begun, object bool) {
	depth, last := 0, ""
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '"':
			from := i + 1
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 1 && i < len(raw) {
				last = raw[from:i]
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth != 1 || last != key {
				continue
			}
			v := i + 1 + len(raw[i+1:]) - len(strings.TrimLeft(raw[i+1:], " \t\r\n"))
			if v == len(raw) {
				return "", false, false
			}
			if raw[v] != '{' {
				return "", true, false
			}
			end, _ := engineEnd(raw, v, "{", "}")
			return raw[v:end], true, true
		}
	}
	return "", false, false
}

package parsers

import "strings"

// Harmony is the channel format of gpt-oss.
var Harmony = grammar{
	name: "openai",
	read: func(p *parse) { readChannels(p, nil) },
	format: func(content string, calls []Call) string {
		out := ""
		if content != "" {
			out = "<|channel|>final<|message|>" + content + "<|end|>"
		}
		return join(out, calls, "", func(_ int, c Call) string {
			return "<|start|>assistant to=functions." + c.Name + "<|channel|>commentary <|constrain|>json<|message|>" + c.Arguments + "<|call|>"
		})
	},
}.family()

// readChannels reads messages in channels. call, if it is not nil, reads the message to a tool
// whose header begins at a and whose text begins at from, and returns its end.
func readChannels(p *parse, call func(p *parse, a, from int, to string) int) {
	p.own, p.join = true, "\n"
	const message = "<|message|>"
	at := p.pos
	for at < len(p.text) {
		m := p.index(message, at)
		if m < 0 {
			harmonyTail(p, at)
			return
		}
		if p.opt.Dialect == Ours {
			if end, next := harmonyEnd(p, at+1); end < m && p.text[end:next] != "" {
				harmonyUnmarked(p, at, end, next)
				at = next
				continue
			}
		}
		from := m + len(message)
		header := p.text[at:m]
		to := recipient(header)
		if call != nil && to != "" && to != "assistant" && to != "user" {
			at = call(p, at, from, to)
			continue
		}
		end, next := harmonyEnd(p, harmonyBody(p, from))
		switch {
		case !strings.Contains(header, "<|channel|>") && to == "" && strings.TrimSpace(strings.TrimPrefix(header, "<|start|>assistant")) != "":
			p.fault(at, m, "malformed_header", "a message without a channel")
			p.content(at, next)
		case to != "" && to != "assistant" && to != "user":
			harmonyCall(p, at, from, end, next, to)
		case to == "assistant":
			p.frame(at, next)
			p.fault(at, next, "dropped_text", "a message to the assistant itself")
		case strings.Contains(header, "<|channel|>analysis"):
			p.frame(at, from)
			p.reason(from, end)
			p.frame(end, next)
		default:
			p.frame(at, from)
			p.content(from, end)
			p.frame(end, next)
		}
		at = next
	}
}

func harmonyCall(p *parse, a, from, end, next int, to string) {
	args, st := strings.TrimSpace(p.text[from:end]), Complete
	switch {
	case end == len(p.text) && !isJSON(args):
		st = Truncated
	case end == next:
		st = Recovered
	case args != "" && !isJSON(args):
		st = Malformed
		if fixed, ok := repair(args); ok && p.k.Repair {
			args, st = fixed, Recovered
		}
	}
	p.call(a, next, strings.TrimPrefix(to, "functions."), args, st)
}

// harmonyBody is where the end of a message may be that begins at from: behind the object
// that the message is, as markers inside its strings are text.
func harmonyBody(p *parse, from int) int {
	j := p.skipSpace(from)
	if p.opt.Dialect != Ours || j >= len(p.text) || p.text[j] != '{' {
		return from
	}
	end, err := scanner{text: p.text}.value(j, 0)
	if err != nil {
		p.spent += end - j
		return from
	}
	return end
}

// harmonyUnmarked reads a message that has lost its text mark: a call if an object follows
// the header, else a fault.
func harmonyUnmarked(p *parse, at, end, next int) {
	if brace := strings.IndexByte(p.text[at:end], '{'); brace >= 0 {
		to, args := recipient(p.text[at:at+brace]), strings.TrimSpace(p.text[at+brace:end])
		if to != "" && to != "assistant" && to != "user" && isJSON(args) {
			p.call(at, next, strings.TrimPrefix(to, "functions."), args, Recovered)
			return
		}
	}
	if strings.TrimSpace(p.text[at:end]) == "" {
		p.frame(at, next)
		return
	}
	p.fault(at, next, "malformed_header", "a message without its text mark")
	p.content(at, next)
}

// recipient finds to=NAME in a header.
func recipient(header string) string {
	i := strings.Index(header, "to=")
	if i < 0 {
		return ""
	}
	t := header[i+3:]
	if e := strings.IndexAny(t, " <\n\t"); e >= 0 {
		t = t[:e]
	}
	return t
}

func harmonyEnd(p *parse, from int) (end, next int) {
	end, next = len(p.text), len(p.text)
	for _, m := range []string{"<|end|>", "<|call|>", "<|return|>", "<|start|>"} {
		if i := p.index(m, from); i >= 0 && i < end {
			end, next = i, i+len(m)
			if m == "<|start|>" {
				next = i
			}
		}
	}
	return end, next
}

// harmonyTail is what follows the last message: a header being written, or text.
func harmonyTail(p *parse, at int) {
	t := p.text[at:]
	if end, next := harmonyEnd(p, at+1); next > end && strings.Contains(t, "<|channel|>") {
		p.fault(at, len(p.text), "malformed_header", "a message without its text mark")
		p.content(at, len(p.text))
		return
	}
	if strings.HasPrefix(t, "<|") || strings.Contains(t, "<|channel|>") || recipient(t) != "" {
		p.frame(at, len(p.text))
		p.fault(at, len(p.text), "truncated", "the text ends in a header")
		return
	}
	p.content(at, len(p.text))
}

package parsers

import (
	"cmp"
	"strings"
)

func (g grammar) write(p Parsed) string {
	var b strings.Builder
	if p.Reasoning != "" && g.think.close != "" {
		b.WriteString(g.think.open + p.Reasoning + g.think.close)
	}
	b.WriteString(g.format(p.Content, p.Calls))
	return b.String()
}

// jsonText spells a call as an object.
func jsonText(c Call, argsKey string) string {
	args := c.Arguments
	args = cmp.Or(args, "{}")
	return `{"name": ` + quote(c.Name) + `, "` + argsKey + `": ` + args + "}"
}

// join writes content, then every call between open and close.
func join(content string, calls []Call, between string, one func(int, Call) string) string {
	parts := make([]string, len(calls))
	for i, c := range calls {
		parts[i] = one(i, c)
	}
	return content + strings.Join(parts, between)
}

// jsonListText spells calls as a list of objects.
func jsonListText(calls []Call, argsKey string) string {
	return "[" + join("", calls, ", ", func(_ int, c Call) string { return jsonText(c, argsKey) }) + "]"
}

// argument is one argument of a call: text is raw for strings, else JSON.
type argument struct {
	key, text string
	isText    bool
}

func arguments(c Call) []argument {
	s := scanner{text: c.Arguments, raw: true}
	ms, _, err := s.object(s.space(0))
	if err != nil {
		return nil
	}
	out := make([]argument, 0, len(ms))
	for _, m := range ms {
		t, isText := unquote(s.text[m.a:m.b])
		out = append(out, argument{m.key, t, isText})
	}
	return out
}

// xmlText spells calls with one element a parameter.
func xmlText(open, close, call, callEnd, par, parEnd, nl string, calls []Call) string {
	return join("", calls, "\n", func(_ int, c Call) string {
		var b strings.Builder
		b.WriteString(open + strings.Replace(call, "%", c.Name, 1))
		for _, a := range arguments(c) {
			b.WriteString(strings.Replace(par, "%", a.key, 1) + nl + a.text + nl + parEnd)
		}
		b.WriteString(callEnd + close)
		return b.String()
	})
}

// pyText spells calls as Python.
func pyText(calls []Call, between string) string {
	return join("", calls, between, func(_ int, c Call) string {
		var args []string
		for _, a := range arguments(c) {
			v := a.text
			if a.isText {
				v = quote(v)
			}
			args = append(args, a.key+"="+v)
		}
		return c.Name + "(" + strings.Join(args, ", ") + ")"
	})
}

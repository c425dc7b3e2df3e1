package chattemplate

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"hermes/internal/jinja"
	"hermes/parsers"
	"hermes/trajectory"
)

// guess is the family before anything is rendered.
func (o Options) guess() (parsers.Family, error) {
	family, _, _ := parsers.DetectFamily(o.Source)
	return parsers.Standard().Get(cmp.Or(o.Family, family, parsers.Plain.Name))
}

// readBack is the family whose parser reads a call as this template writes it: the
// guess, if it does; else the first of the built-in ones that does without a repair; else the
// guess.
func (t *Template) readBack(p *probe) parsers.Family {
	answer, inReasoning, ok := t.written(p, assistant("", aCall()), []trajectory.ToolSpec{aTool()})
	if !ok || t.family.Name == parsers.Phi4Mini.Name { // its models write another form than its history has
		return t.family
	}
	o := parsers.ParseOptions{Tools: []trajectory.ToolSpec{aTool()}, InReasoning: inReasoning}
	for _, f := range append([]parsers.Family{t.family}, parsers.Builtin()...) {
		got := f.Parse(answer, o)
		if len(got.Calls) == 1 && (f.Name == t.family.Name || got.Calls[0].State != parsers.Recovered) && got.Calls[0].Name == aCall().Name && strings.TrimSpace(got.Content) == "" && sameJSON(got.Calls[0].Arguments, aCall().Arguments) {
			return f
		}
	}
	return t.family
}

// written is an answer as the template writes it after its own generation prompt,
// without the token that ends the turn.
func (t *Template) written(p *probe, msg trajectory.Message, tools []trajectory.ToolSpec) (answer string, inReasoning, ok bool) {
	msgs := []trajectory.Message{user("u"), msg}
	prompt, err := t.render(msgs[:1], tools, true)
	if err != nil {
		return "", false, false
	}
	r, err := t.render(msgs, tools, false)
	if err != nil {
		return "", false, false
	}
	start := 0
	for start < min(len(prompt.text), len(r.text)) && prompt.text[start] == r.text[start] {
		start++
	}
	if start < len(prompt.text) { // the history has another header than the prompt: behind the control tokens of the prompt's
		for _, s := range r.special {
			if s[0] < start && start < s[1] {
				start = s[0]
			}
		}
		rest := prompt.special
		for len(rest) > 0 && rest[0][0] < start {
			rest = rest[1:]
		}
		for _, s := range r.special {
			if s[0] >= start && len(rest) > 0 && prompt.text[rest[0][0]:rest[0][1]] == r.text[s[0]:s[1]] {
				start, rest = s[1], rest[1:]
			}
		}
	}
	inReasoning = InReasoning(r.text[:start])
	syntax, closer := r.ending(start, p.closer)
	if strings.Contains(closer, "call") && !slices.Contains(p.stops, closer) { // it ends a call, not the turn
		syntax += closer
	}
	return r.text[start : start+len(syntax)], inReasoning, true
}

func sameJSON(a, b string) bool {
	x, errX := jinja.Decode([]byte(a))
	y, errY := jinja.Decode([]byte(b))
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// InReasoning reports whether a rendered prompt ends inside an open think block.
func InReasoning(prompt string) bool {
	prompt = strings.TrimRightFunc(prompt, unicode.IsSpace)
	return slices.ContainsFunc(thinkTags, func(tag [2]string) bool { return strings.HasSuffix(prompt, tag[0]) })
}

package chattemplate

import (
	"strings"

	"hermes/trajectory"
)

// mark is in probe messages where a model would write; no template knows it.
const mark = "hermesprobeword"

func user(text string) trajectory.Message { return trajectory.Text(trajectory.User, text) }

func assistant(content string, calls ...trajectory.Call) trajectory.Message {
	m := trajectory.Text(trajectory.Assistant, content)
	m.Calls = calls
	return m
}

// aCall is a call that any tool may have; nine characters of id please Mistral.
func aCall() trajectory.Call {
	return trajectory.Call{ID: "call00001", Name: "probe", Arguments: `{"word": "` + mark + `"}`}
}

func aTool() trajectory.ToolSpec {
	return trajectory.ToolSpec{Name: "probe", Description: "probe",
		Parameters: []byte(`{"type": "object", "properties": {"word": {"type": "string", "description": "word"}}, "required": ["word"]}`)}
}

// findForm tries how the template wants arguments and empty content, and reads
// in the source where it looks for reasoning.
func (t *Template) findForm() form {
	f := form{}
	for _, field := range []string{"reasoning_content", "thinking", "reasoning"} {
		if mentionsField(t.opt.Source, field) {
			f.reasoning = field
			break
		}
	}
	if f.reasoning == "" && strings.Contains(t.opt.Source, "</think>") {
		f.reasoning = inline
	}
	// the first form that prints the call as JSON wins, then the first that prints it
	best := 0
	for _, try := range []form{{}, {nullText: true}, {argText: true}, {nullText: true, argText: true}} {
		try.reasoning = f.reasoning
		c := *t
		c.form, c.limits = try, probeLimits(t.limits)
		if rank := c.callRank(); rank > best {
			f, best = try, rank
		}
	}
	if best == 0 {
		return form{reasoning: f.reasoning}
	}
	return f
}

// callRank says how well the template prints a call: 0 not at all, 1 as Python
// spells it, 2 well.
func (t *Template) callRank() int {
	msgs := []trajectory.Message{user("u"), assistant("", aCall())}
	r, err := t.render(msgs, []trajectory.ToolSpec{aTool()}, false)
	switch {
	case err != nil || !strings.Contains(r.text, mark):
		return 0
	case strings.Contains(r.text, "{'word'"), strings.Contains(r.text, `\"word\"`):
		return 1
	}
	return 2
}

func mentionsField(source, field string) bool {
	for _, form := range []string{"." + field, "'" + field + "'", `"` + field + `"`} {
		for rest := source; ; {
			i := strings.Index(rest, form)
			if i < 0 {
				break
			}
			rest = rest[i+len(form):]
			if rest == "" || !isWord(rest[0]) {
				return true
			}
		}
	}
	return false
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Package sharegpt writes conversations in the ShareGPT layout of function-calling
// trajectories: a fixed system text that lists the tools, thinking in <think> blocks,
// calls in <tool_call>, all results of a turn in one value.
//
// The real system prompt and ephemeral messages are never part of it. The functions are
// pure, but for what [Options.Systems] keeps; the same record gives the same bytes.
package sharegpt

import (
	"bytes"
	_ "embed"
	"slices"
	"strings"

	"hermes/trajectory"
)

//go:embed preamble.md
var preamble string

// Turn is one entry of a conversation.
type Turn struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

// Options change the layout. The zero value is upstream's.
type Options struct {
	// Preamble replaces the system text; {tools} in it means the JSON array of tools.
	Preamble string
	// Systems keeps the last system text; nil: it is made for each conversation. It belongs to
	// one goroutine.
	Systems *Systems
}

// Systems keeps the system text of the tools that were rendered last, which most rollouts of
// a run have in common. The zero value is empty.
type Systems struct {
	preamble, text string
	tools          []trajectory.ToolSpec
}

// of is [system] of these tools. Where they are the same values as before, comparing them
// reads nothing of their texts.
func (s *Systems) of(tools []trajectory.ToolSpec, preamble string) string {
	if s == nil {
		return system(tools, preamble)
	}
	same := func(a, b trajectory.ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
	}
	if s.text == "" || s.preamble != preamble || !slices.EqualFunc(s.tools, tools, same) {
		s.preamble, s.tools = preamble, slices.Clone(tools)
		s.text = system(tools, preamble)
	}
	return s.text
}

// Conversation renders messages; ephemeral ones and system prompts are left out. complete
// is false when a scratchpad was opened and not closed.
func Conversation(msgs []trajectory.Message, tools []trajectory.ToolSpec, o Options) (turns []Turn, complete bool) {
	turns = append(turns, Turn{"system", o.Systems.of(tools, o.Preamble)})
	complete = true
	var results []string
	flush := func() {
		if len(results) > 0 {
			turns = append(turns, Turn{"tool", strings.Join(results, "\n")})
			results = nil
		}
	}
	names := map[string]string{} // of calls, by id
	for _, m := range msgs {
		if m.Ephemeral || m.Role == trajectory.System {
			continue
		}
		if m.Role == trajectory.Tool {
			results = append(results, response(m, names[m.CallID]))
			continue
		}
		flush()
		switch m.Role {
		case trajectory.User:
			turns = append(turns, Turn{"human", content(m)})
		case trajectory.Assistant:
			for _, c := range m.Calls {
				names[c.ID] = c.Name
			}
			value, ok := answer(m)
			complete = complete && ok
			turns = append(turns, Turn{"gpt", value})
		}
	}
	flush()
	return turns, complete
}

// system is the fixed system text.
func system(tools []trajectory.ToolSpec, custom string) string {
	text := custom
	if text == "" {
		text = strings.TrimSuffix(preamble, "\n")
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, t := range tools {
		if i > 0 {
			b.WriteString(", ")
		}
		parameters := string(t.Parameters)
		if parameters == "" {
			parameters = "{}"
		}
		b.WriteString(`{"name": ` + quote(t.Name) + `, "description": ` + quote(t.Description) +
			`, "parameters": ` + embed(parameters) + `, "required": null}`)
	}
	b.WriteByte(']')
	return strings.ReplaceAll(text, "{tools}", b.String())
}

// answer is the value of an assistant's message.
func answer(m trajectory.Message) (value string, complete bool) {
	var b strings.Builder
	if r := strings.TrimSpace(m.Reasoning); r != "" {
		b.WriteString("<think>\n" + r + "\n</think>\n")
	}
	text, complete := scratchpad(content(m))
	if text != "" {
		b.WriteString(text + "\n")
	}
	value = b.String()
	if !strings.Contains(value, "<think>") {
		value = "<think>\n</think>\n" + value
	}
	b.Reset()
	for _, c := range m.Calls {
		b.WriteString("<tool_call>\n" + `{"name": ` + quote(c.Name) + `, "arguments": ` + embed(c.Arguments) + "}\n</tool_call>\n")
	}
	value += b.String()
	if len(m.Calls) > 0 {
		return strings.TrimRight(value, " \t\r\n"), complete
	}
	return strings.TrimSpace(value), complete
}

// scratchpad turns upstream's older thinking tags into the common ones.
func scratchpad(s string) (string, bool) {
	const open, closed = "<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"
	complete := strings.Count(s, open) <= strings.Count(s, closed)
	return strings.NewReplacer(open, "<think>", closed, "</think>").Replace(s), complete
}

// response is one result.
func response(m trajectory.Message, called string) string {
	name := m.Name
	if name == "" {
		name = called
	}
	text := content(m)
	value := quote(text)
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		value = embed(text)
	}
	return "<tool_response>\n" + `{"tool_call_id": ` + quote(m.CallID) + `, "name": ` + quote(name) +
		`, "content": ` + value + "}\n</tool_response>"
}

// content is the text of a message; other parts are named in brackets.
func content(m trajectory.Message) string {
	if len(m.Parts) == 1 && m.Parts[0].Kind == trajectory.PartText {
		return m.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == trajectory.PartText {
			b.WriteString(p.Text)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[" + string(p.Kind) + "]")
	}
	return b.String()
}

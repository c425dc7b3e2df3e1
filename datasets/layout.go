package datasets

import (
	"encoding/json"
	"slices"
	"strings"

	"hermes/datasets/scan"
	"hermes/trajectory"
)

// layOut writes a conversation under the key of a layout.
func layOut(all []trajectory.Message, to Layout) (key string, value []byte) {
	switch {
	case to == ShareGPT:
		return "conversations", shareGPT(all)
	case to == Prompts && len(all) == 1 && all[0].Role == trajectory.User && onlyText(all[0]):
		return "prompt", scan.Quote(nil, all[0].Content())
	case to == Prompts:
		return "prompt", openAI(all)
	}
	return "messages", openAI(all)
}

func onlyText(m trajectory.Message) bool {
	return !slices.ContainsFunc(m.Parts, func(p trajectory.Part) bool { return p.Kind != trajectory.PartText })
}

// openAI writes a list of chat messages.
func openAI(all []trajectory.Message) []byte {
	b := []byte{'['}
	for i, m := range all {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(scan.Quote(append(b, `{"role": `...), string(m.Role)), `, "content": `...)
		switch {
		case len(m.Parts) == 0 && len(m.Calls) > 0:
			b = append(b, "null"...)
		case onlyText(m):
			b = scan.Quote(b, m.Content())
		default:
			b = parts(b, m.Parts)
		}
		b = member(b, "reasoning_content", m.Reasoning)
		b = member(b, "tool_call_id", m.CallID)
		b = member(b, "name", m.Name)
		if len(m.Calls) > 0 {
			b = calls(append(b, `, "tool_calls": `...), m.Calls)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func member(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return scan.Quote(append(scan.Quote(append(b, ", "...), key), ": "...), text)
}

func parts(b []byte, all []trajectory.Part) []byte {
	b = append(b, '[')
	for i, p := range all {
		if i > 0 {
			b = append(b, ", "...)
		}
		switch p.Kind {
		case trajectory.PartText:
			b = append(scan.Quote(append(b, `{"type": "text", "text": `...), p.Text), '}')
		case trajectory.PartImage:
			b = append(scan.Quote(append(b, `{"type": "image_url", "image_url": {"url": `...), p.URL), "}}"...)
		default:
			b = append(scan.Quote(append(b, `{"type": "audio_url", "audio_url": {"url": `...), p.URL), "}}"...)
		}
	}
	return append(b, ']')
}

func calls(b []byte, all []trajectory.Call) []byte {
	b = append(b, '[')
	for i, c := range all {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '{')
		if c.ID != "" {
			b = append(scan.Quote(append(b, `"id": `...), c.ID), ", "...)
		}
		b = scan.Quote(append(b, `"type": "function", "function": {"name": `...), c.Name)
		b = append(scan.Quote(append(b, `, "arguments": `...), c.Arguments), "}}"...)
	}
	return append(b, ']')
}

// shareGPT writes turns {from, value}. Calls and results stand in the Hermes tags, and
// the results that follow one turn stand in one value.
func shareGPT(all []trajectory.Message) []byte {
	names := map[trajectory.Role]string{trajectory.System: "system", trajectory.User: "human", trajectory.Assistant: "gpt", trajectory.Tool: "tool"}
	b := []byte{'['}
	for i := 0; i < len(all); i++ {
		if i > 0 {
			b = append(b, ", "...)
		}
		m := all[i]
		value := turnText(m)
		for m.Role == trajectory.Tool && i+1 < len(all) && all[i+1].Role == trajectory.Tool {
			i++
			value += "\n" + turnText(all[i])
		}
		b = scan.Quote(append(b, `{"from": `...), names[m.Role])
		b = append(scan.Quote(append(b, `, "value": `...), value), '}')
	}
	return append(b, ']')
}

func turnText(m trajectory.Message) string {
	switch m.Role {
	case trajectory.Assistant:
		var b strings.Builder
		if m.Reasoning != "" {
			b.WriteString("<think>\n" + m.Reasoning + "\n</think>\n")
		}
		b.WriteString(m.Content())
		for _, c := range m.Calls {
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
				b.WriteByte('\n')
			}
			b.WriteString("<tool_call>\n" + `{"name": ` + string(scan.Quote(nil, c.Name)) + `, "arguments": ` + jsonOr(c.Arguments) + "}\n</tool_call>")
		}
		return b.String()
	case trajectory.Tool:
		text := "{"
		if m.CallID != "" {
			text += `"tool_call_id": ` + string(scan.Quote(nil, m.CallID)) + ", "
		}
		if m.Name != "" {
			text += `"name": ` + string(scan.Quote(nil, m.Name)) + ", "
		}
		content := m.Content()
		if c := strings.TrimSpace(content); !strings.HasPrefix(c, "{") && !strings.HasPrefix(c, "[") {
			return "<tool_response>\n" + text + `"content": ` + string(scan.Quote(nil, content)) + "}\n</tool_response>"
		}
		return "<tool_response>\n" + text + `"content": ` + jsonOr(content) + "}\n</tool_response>"
	}
	return m.Content()
}

// jsonOr embeds text that is JSON as it is, and other text as a string.
func jsonOr(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	return string(scan.Quote(nil, text))
}

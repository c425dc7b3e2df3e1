package model

import (
	"strings"

	"hermes/internal/fakellm/rawjson"
)

// Talk is what the model needs to know of a conversation. Text is decoded when asked for.
type Talk struct {
	Turns     int    // assistant messages so far
	firstUser []byte // raw JSON
	lastTool  []byte // raw JSON
	Tools     []byte // raw JSON list of the tools on offer

	plain                bool // text comes from the strings below, not from JSON
	taskText, resultText string
}

// First is the first user message as the request has it: raw JSON, or a piece of the prompt.
func (c *Talk) First() []byte {
	if c.plain {
		return []byte(c.taskText)
	}
	return c.firstUser
}

func (c *Talk) task() string {
	if c.plain {
		return c.taskText
	}
	return rawjson.Text(c.firstUser)
}

func (c *Talk) result() string {
	if c.plain {
		return c.resultText
	}
	return rawjson.Text(c.lastTool)
}

// ReadMessages scans a raw list of OpenAI messages.
func ReadMessages(raw []byte) (Talk, error) {
	var c Talk
	var bad error
	err := rawjson.Elems(raw, func(msg []byte) bool {
		var role, content []byte
		bad = rawjson.Fields(msg, func(key, val []byte) {
			switch string(key) {
			case "role":
				role = val
			case "content":
				content = val
			}
		})
		switch string(role) {
		case `"assistant"`:
			c.Turns++
		case `"user"`:
			if c.firstUser == nil {
				c.firstUser = content
			}
		case `"tool"`, `"function"`:
			c.lastTool = content
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return c, err
}

// Markup is how a conversation looks as text: used where a request brings a prompt
// instead of messages, and where an answer must be text.
type Markup struct {
	User, Assistant, End  string // begin of a message by its speaker, end of a message
	ToolOpen, ToolClose   string // around a tool's answer
	ToolsOpen, ToolsClose string // around the list of tools, one JSON object a line
	CallOpen, CallClose   string // around {"name", "arguments"}
	ThinkOpen, ThinkClose string
}

// ChatML is the markup of the Hermes and Qwen models.
var ChatML = Markup{
	User: "<|im_start|>user\n", Assistant: "<|im_start|>assistant\n", End: "<|im_end|>",
	ToolOpen: "<tool_response>\n", ToolClose: "\n</tool_response>",
	ToolsOpen: "<tools>\n", ToolsClose: "\n</tools>",
	CallOpen: "<tool_call>\n", CallClose: "\n</tool_call>",
	ThinkOpen: "<think>\n", ThinkClose: "\n</think>\n\n",
}

// Read finds the parts of a conversation in a rendered prompt.
func (m Markup) Read(prompt string) Talk {
	c := Talk{plain: true}
	c.Turns = max(0, strings.Count(prompt, m.Assistant)-1) // the last one is the generation prompt
	rest := prompt
	for { // a tool's answer may be rendered as a user message: skip those
		_, after, ok := strings.Cut(rest, m.User)
		if !ok {
			break
		}
		if msg, _, _ := strings.Cut(after, m.End); !strings.HasPrefix(msg, m.ToolOpen) {
			c.taskText = msg
			break
		}
		rest = after
	}
	if !strings.Contains(prompt, m.User) {
		c.taskText = prompt
	}
	if strings.Contains(prompt, m.ToolOpen) { // which is faster than to look from the end
		i := strings.LastIndex(prompt, m.ToolOpen)
		c.resultText, _, _ = strings.Cut(prompt[i+len(m.ToolOpen):], m.ToolClose)
	}
	if _, list, ok := strings.Cut(prompt, m.ToolsOpen); ok {
		list, _, _ = strings.Cut(list, m.ToolsClose)
		c.Tools = []byte("[" + strings.Join(strings.Split(strings.TrimSpace(list), "\n"), ",") + "]")
	}
	return c
}

// write renders an answer as the model would sample it, without the end mark.
func (m Markup) write(a *Answer, openThought bool) string {
	var b []byte
	if a.Reasoning != "" || openThought {
		if !openThought {
			b = append(b, m.ThinkOpen...)
		}
		b = append(append(b, a.Reasoning...), m.ThinkClose...)
	}
	b = append(b, a.Content...)
	for _, c := range a.Calls {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			b = append(b, '\n')
		}
		b = append(b, m.CallOpen...)
		b = append(rawjson.Quote(append(b, `{"name": `...), c.Name), `, "arguments": `...)
		b = append(append(b, c.Args...), '}')
		b = append(b, m.CallClose...)
	}
	return string(b)
}

// said is an assistant's message of raw parts.
func said(content, reasoning, calls []byte) Answer {
	a := Answer{Content: rawjson.Text(content), Reasoning: rawjson.Text(reasoning)}
	_ = rawjson.Elems(calls, func(call []byte) bool { // none: nothing to add
		f := rawjson.Field(call, "function")
		a.Calls = append(a.Calls, AnswerCall{Name: rawjson.Text(rawjson.Field(f, "name")), Args: rawjson.Text(rawjson.Field(f, "arguments"))})
		return true
	})
	return a
}

// Render writes OpenAI messages as a prompt that ends where the model begins.
func (m Markup) Render(messages, tools []byte) string {
	var b strings.Builder
	if len(tools) > 2 {
		b.WriteString("<|im_start|>system\n" + m.ToolsOpen)
		sep := ""
		_ = rawjson.Elems(tools, func(t []byte) bool { // broken tools were refused before
			b.WriteString(sep)
			b.Write(t)
			sep = "\n"
			return true
		})
		b.WriteString(m.ToolsClose + m.End + "\n")
	}
	_ = rawjson.Elems(messages, func(msg []byte) bool { // broken messages were refused before
		content := rawjson.Text(rawjson.Field(msg, "content"))
		switch role := rawjson.Text(rawjson.Field(msg, "role")); role {
		case "user":
			b.WriteString(m.User + content)
		case "assistant":
			b.WriteString(m.Assistant)
			a := said(rawjson.Field(msg, "content"), rawjson.Field(msg, "reasoning_content"), rawjson.Field(msg, "tool_calls"))
			b.WriteString(m.write(&a, false))
		case "tool":
			b.WriteString(m.User + m.ToolOpen + content + m.ToolClose)
		default:
			b.WriteString("<|im_start|>" + role + "\n" + content)
		}
		b.WriteString(m.End + "\n")
		return true
	})
	return b.String() + m.Assistant
}

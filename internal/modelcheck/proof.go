package modelcheck

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hermes/internal/jinja"
	"hermes/parsers"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// prove compares the parts here with the server's on the probe conversation, without and
// with a tool, for one turn and the next.
func (c *check) prove(ctx context.Context) error {
	for _, tools := range []bool{false, true} {
		name := "plain"
		if tools {
			name = "with a tool"
		}
		if err := c.conversation(ctx, name, tools); err != nil {
			return fmt.Errorf("proof, %s: %w", name, err)
		}
	}
	return nil
}

func (c *check) step(name, result, format string, a ...any) {
	c.report.Proof = append(c.report.Proof, Step{name, result, fmt.Sprintf(format, a...)})
}

// conversation proves one probe: rendered prompt, sampled ids, parsed answer, next turn.
func (c *check) conversation(ctx context.Context, name string, tools bool) error {
	messages := []message{{"role": "user", "content": question}}
	ours, err := c.prompt(messages, tools)
	if err != nil {
		return err
	}
	a, err := c.chat(ctx, messages, tools)
	if err != nil {
		return err
	}
	theirs := a.prompt()
	c.samePrompt(name+": prompt", ours, theirs, a.Usage.Prompt)
	if err := c.sameAnswer(name, a.Choices[0]); err != nil {
		return err
	}
	if err := c.tokensOut(ctx, name, ours); err != nil {
		return err
	}
	return c.nextTurn(ctx, name, tools, messages, a)
}

// prompt renders and tokenizes messages as a run would.
func (c *check) prompt(messages []message, tools bool) ([]trajectory.Token, error) {
	raw, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	list, err := jinja.Decode(raw)
	if err != nil {
		return nil, err
	}
	var offered any
	if tools {
		offered, err = jinja.Decode([]byte("[" + probeTool + "]"))
		if err != nil {
			return nil, err
		}
	}
	vars := jinja.NewDict().Set("messages", list).Set("tools", offered).Set("documents", nil).Set("add_generation_prompt", true).
		Set("bos_token", c.BOS).Set("eos_token", c.EOS)
	for k, v := range c.Vars {
		vars.Set(k, v)
	}
	out, err := c.Template.Render(vars, jinja.RenderOptions{Now: c.Now})
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return c.Tokenizer.Encode(out.Text, tokenizer.Options{Special: true})
}

func (c *check) samePrompt(name string, ours, theirs []trajectory.Token, count int) {
	switch {
	case theirs != nil && slices.Equal(ours, theirs):
		c.step(name, Proved, "%d tokens", len(ours))
	case theirs != nil:
		c.step(name, Differs, "%s", c.difference(ours, theirs))
	case count == len(ours):
		c.step(name, Skipped, "the server shows no prompt ids; their number, %d, is the same", count)
	default:
		c.step(name, Differs, "%d tokens here, %d there", len(ours), count)
	}
}

// difference shows where two sequences part.
func (c *check) difference(ours, theirs []trajectory.Token) string {
	at := 0
	for at < len(ours) && at < len(theirs) && ours[at] == theirs[at] {
		at++
	}
	const around = 8
	show := func(ids []trajectory.Token) string {
		from, to := max(0, min(at-around, len(ids))), min(at+around, len(ids))
		text, err := c.Tokenizer.Decode(ids[from:to])
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%d tokens here, %d there; they part at token %d: %s here, %s there", len(ours), len(theirs), at, show(ours), show(theirs))
}

// sameAnswer decodes and parses the sampled ids and compares with what the server read.
func (c *check) sameAnswer(name string, got choice) error {
	name += ": answer"
	if got.IDs == nil {
		c.step(name, Skipped, "chat completions give no token ids")
		return nil
	}
	text, err := c.decode(got.IDs)
	if err != nil {
		c.step(name, Differs, "the server's ids cannot be decoded: %v", err)
		return nil
	}
	if c.Family.New == nil {
		c.step(name, Skipped, "no family given; decoded: %.80q", text)
		return nil
	}
	opt := parsers.ParseOptions{InReasoning: c.Thinking}
	opt.Tools, err = offered()
	if err != nil {
		return err
	}
	read := func() parsers.Parsed {
		s := c.Family.New(opt)
		s.Feed(text, nil)
		return s.Finish(got.Finish == "length")
	}
	p, m := read(), got.Message
	for _, call := range m.Calls {
		if call.Function.Name != opt.Tools[0].Name {
			// Many servers accept calls of tools that were not offered; hermes does not. A second
			// reading, without the list of tools, shows whether the family could read them.
			opt.Tools = nil
			if len(p.Calls) < len(m.Calls) {
				p = read()
			}
			break
		}
	}
	switch same, note := sameCalls(p.Calls, m.Calls); {
	case len(m.Calls) == 0 && len(p.Calls) > 0:
		c.step(name, Skipped, "family %s reads %d calls; the server was started without a tool parser", c.Family.Name, len(p.Calls))
	case !same:
		c.step(name, Differs, "calls: %s", note)
	case strings.TrimSpace(p.Content) != strings.TrimSpace(m.Content) && (m.Reasoning != "" || m.Thought != "" || p.Reasoning == ""):
		c.step(name, Differs, "content %.120q here, %.120q there", p.Content, m.Content)
	default:
		c.step(name, Proved, "%d tokens, %d calls, read by %s as by the server", len(got.IDs), len(p.Calls), c.Family.Name)
	}
	return nil
}

// decode leaves special tokens out, as servers do before they parse, except those that the
// family needs to see: a text that parses into calls only with them is kept with them.
func (c *check) decode(ids []trajectory.Token) (string, error) {
	whole, err := c.Tokenizer.Decode(ids)
	if err != nil {
		return "", err
	}
	s, plain := c.Tokenizer.Stream(tokenizer.StreamOptions{SkipSpecial: true}), ""
	for _, id := range ids {
		part, err := s.Push(id)
		if err != nil {
			return "", err
		}
		plain += part
	}
	plain += s.Finish()
	if c.Family.New != nil && len(c.Family.Parse(whole, parsers.ParseOptions{}).Calls) > len(c.Family.Parse(plain, parsers.ParseOptions{}).Calls) {
		return whole, nil
	}
	return plain, nil
}

func offered() ([]trajectory.ToolSpec, error) {
	var t struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(probeTool), &t); err != nil {
		return nil, err
	}
	return []trajectory.ToolSpec{{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters}}, nil
}

func sameCalls(ours []parsers.Call, theirs []struct {
	Function struct{ Name, Arguments string }
}) (bool, string) {
	if len(ours) != len(theirs) {
		return false, fmt.Sprintf("%d here, %d there", len(ours), len(theirs))
	}
	for i, t := range theirs {
		var a, b any
		same := json.Unmarshal([]byte(ours[i].Arguments), &a) == nil && json.Unmarshal([]byte(t.Function.Arguments), &b) == nil && reflect.DeepEqual(a, b)
		if ours[i].Name != t.Function.Name || !same && ours[i].Arguments != t.Function.Arguments {
			return false, fmt.Sprintf("%s(%.80s) here, %s(%.80s) there", ours[i].Name, ours[i].Arguments, t.Function.Name, t.Function.Arguments)
		}
	}
	return true, ""
}

// tokensOut sends our ids through each open door and decodes what comes back.
func (c *check) tokensOut(ctx context.Context, name string, ids []trajectory.Token) error {
	for _, d := range doors() {
		if !c.gives[d.path] {
			continue
		}
		out, err := c.through(ctx, d, ids, probeTokens)
		if err != nil {
			return err
		}
		step := name + ": " + d.path
		if len(out.ids) == 0 {
			c.step(step, Differs, "our prompt of %d tokens gives no tokens", len(ids))
			continue
		}
		text, err := c.Tokenizer.Decode(out.ids)
		switch {
		case err != nil:
			c.step(step, Differs, "the server's ids cannot be decoded: %v", err)
		case out.text == nil:
			c.step(step, Proved, "%d tokens in, %d out, all in the vocabulary", len(ids), len(out.ids))
		case !strings.HasPrefix(text, *out.text) && !strings.HasSuffix(text, *out.text) && !strings.Contains(*out.text, "\uFFFD"):
			c.step(step, Differs, "decoded %.120q here, %.120q there", text, *out.text)
		default:
			c.step(step, Proved, "%d tokens in, %d out, decoded to the same text", len(ids), len(out.ids))
		}
	}
	return nil
}

// nextTurn looks whether the prompt of the next turn begins with all that was before: then
// a conversation is one sequence, else the template rewrites history and exact runs fork.
func (c *check) nextTurn(ctx context.Context, name string, tools bool, messages []message, a *answer) error {
	name += ": next turn"
	got := a.Choices[0]
	if a.prompt() == nil || got.IDs == nil || got.Finish == "length" {
		c.step(name, Skipped, "the server shows no ids of the first turn, or cut it")
		return nil
	}
	said := message{"role": "assistant", "content": got.Message.Content}
	if r := got.Message.Reasoning + got.Message.Thought; r != "" {
		said["reasoning_content"] = r
	}
	next := append(slices.Clone(messages), said)
	if len(got.Message.Calls) > 0 {
		var calls []map[string]any
		for i, k := range got.Message.Calls {
			id := fmt.Sprintf("call%05d", i)
			calls = append(calls, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": k.Function.Name, "arguments": k.Function.Arguments}})
			next = append(next, message{"role": "tool", "tool_call_id": id, "name": k.Function.Name, "content": "earth"})
		}
		said["tool_calls"] = calls
	} else {
		next = append(next, message{"role": "user", "content": "And in one word?"})
	}
	b, err := c.chat(ctx, next, tools)
	if err != nil {
		c.step(name, Skipped, "the server refuses the second turn: %s", reason(err))
		return nil
	}
	before, theirs := slices.Concat(a.prompt(), got.IDs), b.prompt()
	note, err := c.sameNext(next, tools, theirs)
	switch {
	case err != nil:
		return err
	case note != "":
		c.step(name, Differs, "%s", note)
	case len(theirs) >= len(before) && slices.Equal(theirs[:len(before)], before):
		c.step(name, Proved, "the prompt begins with all %d tokens of the first turn", len(before))
	default:
		c.step(name, Proved, "rendered alike, but the template rewrites what was before (%s): exact runs keep the sampled tokens", c.difference(before, theirs))
	}
	return nil
}

// sameNext compares the second prompt; note says how it differs. Servers turn the arguments
// of calls into objects before they render, or do not: either will do.
func (c *check) sameNext(messages []message, tools bool, theirs []trajectory.Token) (note string, err error) {
	objects, err := withObjects(messages)
	if err != nil {
		return "", err
	}
	for _, list := range [][]message{objects, messages} {
		ours, bad := c.prompt(list, tools)
		if bad != nil {
			err = bad
			continue
		}
		if slices.Equal(ours, theirs) {
			return "", nil
		}
		note = cmp.Or(note, c.difference(ours, theirs))
	}
	if note == "" {
		return "", err
	}
	return note, nil
}

// withObjects is messages with the arguments of calls as objects.
func withObjects(messages []message) ([]message, error) {
	raw, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	var out []message
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	for _, m := range out {
		calls, _ := m["tool_calls"].([]any)
		for _, call := range calls {
			f := call.(map[string]any)["function"].(map[string]any)
			f["arguments"] = json.RawMessage(f["arguments"].(string))
		}
	}
	return out, nil
}

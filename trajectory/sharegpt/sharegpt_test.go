package sharegpt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/trajectory"
	"hermes/trajectory/sharegpt"
)

func text(r trajectory.Role, s string) trajectory.Message { return trajectory.Text(r, s) }

func call(m trajectory.Message, id, name, args string) trajectory.Message {
	m.Calls = append(m.Calls, trajectory.Call{ID: id, Name: name, Arguments: args})
	return m
}

func result(id, s string) trajectory.Message {
	m := text(trajectory.Tool, s)
	m.CallID = id
	return m
}

func TestConversation(t *testing.T) {
	thinking := text(trajectory.Assistant, "I look.")
	thinking.Reasoning = "  list it\n"
	ephemeral := text(trajectory.System, "SECRET")
	ephemeral.Ephemeral = true
	msgs := []trajectory.Message{
		text(trajectory.System, "the real prompt"), ephemeral,
		text(trajectory.User, "How many é?"),
		call(call(thinking, "a", "ls", `{"z":1,"a":[1.0,1e20,"<é>"],"z":2}`), "b", "cat", `{"broken`),
		result("b", `not json`), result("a", " {\"x\":\"é\\n\"}"),
		text(trajectory.Assistant, " three \n"),
		text(trajectory.User, "Sure?"),
		text(trajectory.Assistant, "<REASONING_SCRATCHPAD>\nhm\n</REASONING_SCRATCHPAD>\nyes"),
	}
	tools := []trajectory.ToolSpec{{Name: "ls", Description: "lists \"x\"", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}}
	turns, complete := sharegpt.Conversation(msgs, tools, sharegpt.Options{Preamble: "T {tools}"})
	want := []sharegpt.Turn{
		{"system", `T [{"name": "ls", "description": "lists \"x\"", "parameters": {"type": "object", "properties": {}}, "required": null}]`},
		{"human", "How many é?"},
		{"gpt", "<think>\nlist it\n</think>\nI look.\n<tool_call>\n" + `{"name": "ls", "arguments": {"z": 2, "a": [1.0, 1e+20, "<é>"]}}` +
			"\n</tool_call>\n<tool_call>\n" + `{"name": "cat", "arguments": "{\"broken"}` + "\n</tool_call>"},
		{"tool", "<tool_response>\n" + `{"tool_call_id": "b", "name": "cat", "content": "not json"}` + "\n</tool_response>\n" +
			"<tool_response>\n" + `{"tool_call_id": "a", "name": "ls", "content": {"x": "é\n"}}` + "\n</tool_response>"},
		{"gpt", "<think>\n</think>\n three"},
		{"human", "Sure?"},
		{"gpt", "<think>\nhm\n</think>\nyes"},
	}
	if len(turns) != len(want) || !complete {
		t.Fatalf("%d turns, complete %v", len(turns), complete)
	}
	for i := range want {
		if turns[i] != want[i] {
			t.Errorf("turn %d:\n got %q\nwant %q", i, turns[i], want[i])
		}
	}
	_, complete = sharegpt.Conversation([]trajectory.Message{text(trajectory.Assistant, "<REASONING_SCRATCHPAD> cut")}, nil, sharegpt.Options{})
	if complete {
		t.Error("an open scratchpad counts as complete")
	}
	turns, _ = sharegpt.Conversation(nil, tools, sharegpt.Options{})
	parts := []string{"<tools>\n[{\"name\": \"ls\"", "]\n</tools>\n", "FunctionCall", "'required': ['name', 'arguments']", "<tool_call>\n"}
	at := 0
	for _, p := range parts {
		i := strings.Index(turns[0].Value[at:], p)
		if i < 0 {
			t.Fatalf("the preamble lacks %q after %d:\n%s", p, at, turns[0].Value)
		}
		at += i
	}
}

func TestLinesShareTheirKeys(t *testing.T) {
	r := &trajectory.Record{Row: "r", Outcome: trajectory.Provider, Reason: "503 <x>", Trace: trajectory.New(trajectory.ModeText, nil)}
	b, err := sharegpt.NewLine(r, []string{"terminal"}, true, sharegpt.Options{}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{`"tool_stats":{"terminal":{"count":0,"success":0,"failure":0}}`, `"tool_error_counts":{"terminal":0}`,
		`"reward":null`, `"outcome":"provider","reason":"503 <x>"`, `"toolsets_used":[]`} {
		if !strings.Contains(string(b), w) {
			t.Errorf("%s lacks %s", b, w)
		}
	}
}

// FuzzArguments: whatever a model writes, a call is one line of valid JSON.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"a":1.50e-7}`, `{"a":`, `[[[`, "\xff", `"\ud800"`, `{"a":1e999}`, `1 2`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		turns, _ := sharegpt.Conversation([]trajectory.Message{call(text(trajectory.Assistant, ""), "i", "n", args)}, nil, sharegpt.Options{})
		v := strings.TrimSuffix(strings.TrimPrefix(turns[1].Value, "<think>\n</think>\n<tool_call>\n"), "\n</tool_call>")
		if !json.Valid([]byte(v)) || strings.Contains(v, "\n") {
			t.Fatalf("%q became %q", args, v)
		}
	})
}

// TestSystemsFollowTheTools: what is kept of one conversation is not taken for another.
func TestSystemsFollowTheTools(t *testing.T) {
	tool := func(name, parameters string) []trajectory.ToolSpec {
		return []trajectory.ToolSpec{{Name: name, Parameters: []byte(parameters)}}
	}
	var kept sharegpt.Systems
	for _, o := range []sharegpt.Options{{}, {Preamble: "{tools}"}, {Preamble: "{tools} mine"}} {
		for _, tools := range [][]trajectory.ToolSpec{nil, tool("a", ""), tool("a", `{"x":1}`), tool("b", `{"x":1}`), tool("b", `{"x":1}`), nil} {
			want, _ := sharegpt.Conversation(nil, tools, o)
			with := o
			with.Systems = &kept
			if got, _ := sharegpt.Conversation(nil, tools, with); got[0] != want[0] {
				t.Errorf("%v, %q: %q, want %q", tools, o.Preamble, got[0], want[0])
			}
		}
	}
}

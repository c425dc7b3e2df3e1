package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/trajectory"
)

// terminal is the tool of these tests.
func terminal() []trajectory.ToolSpec {
	return []trajectory.ToolSpec{{Name: "terminal", Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string"}}}`)}}
}

// TestUnread: a server's answer without a call, whose text looks like one, has a fault at that
// place; a tag that prose speaks of has none.
func TestUnread(t *testing.T) {
	const anywhere = "*"
	const hermes = `<tool_call>{"name":"terminal","arguments":{"command":"ls"}}</tool_call>`
	for _, tt := range []struct {
		name, text string
		from       string // the fault begins with it; empty: no fault
	}{
		{name: "hermes", text: hermes, from: "<tool_call>"},
		{name: "behind words", text: "I will look.\n\n" + hermes, from: "<tool_call>"},
		{name: "on their line", text: "OK " + hermes, from: "<tool_call>"},
		{name: "cut", text: `<tool_call>{"name":"terminal","argum`, from: "<tool_call>"},
		{name: "cut behind words", text: `Let me see: <tool_call>{"name":"termi`, from: "<tool_call>"},
		{
			name: "kimi with a broken id",
			text: `<|tool_calls_section_begin|><|tool_call_begin|>functionsterminal5<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>`,
			from: anywhere,
		},
		{name: "gemma", text: `<|tool_call>call:terminal(command="ls")<tool_call|>`, from: "<|tool_call>"},
		{
			name: "minimax",
			text: "<minimax:tool_call>\n<invoke name=\"terminal\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</minimax:tool_call>",
			from: "<",
		},
		{name: "mistral", text: `[TOOL_CALLS]terminal[ARGS]{"command": "ls"}`, from: "["},
		{name: "harmony", text: `<|channel|>commentary to=functions.terminal <|constrain|>json<|message|>{"command":"ls"}`, from: "<|channel|>"},
		{
			name: "deepseek",
			text: "I will look.\n\n<｜DSML｜tool_calls> <｜DSML｜invoke name=\"terminal\"> <｜DSML｜parameter name=\"command\" string=\"true\">ls</｜DSML｜parameter> </｜DSML｜invoke> </｜DSML｜tool_calls>",
			from: "<｜DSML｜",
		},
		{name: "qwen3_coder", text: "<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>", from: "<function="},
		{name: "an undeclared name", text: `<tool_call>{"name":"search","arguments":{}}</tool_call>`, from: "<tool_call>"},

		{name: "prose", text: "Write calls between <tool_call> and </tool_call> tags; that is how Hermes does it."},
		{name: "in back-ticks", text: "Write `<tool_call>{\"name\": …}</tool_call>` around a call, then `<function=NAME>` inside."},
		{name: "in a fence", text: "Like this:\n```\n" + hermes + "\n```\nDone."},
		{name: "a list", text: "1. one [x], 2. two <y>"},
		{name: "an undeclared name in JSON", text: `[{"name":"search","arguments":{}}]`},
		{name: "JSON", text: `[{"name": "Bob", "age": 5}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said, err := json.Marshal(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			answer := `{"choices":[{"message":{"role":"assistant","content":` + string(said) + `},"finish_reason":"stop"}]}`
			s := open(t, policytest.Serve(t, answer), chat.Options{}, policy.Options{}, terminal()...)
			turn := policytest.Ask(t, s, trajectory.New(trajectory.ModeText, nil), policytest.User("x"), nil)
			if turn.Sampled.Message.Content() != tt.text || len(turn.Sampled.Message.Calls) > 0 {
				t.Fatalf("the message is %+v", turn.Sampled.Message)
			}
			if tt.from == "" {
				if len(turn.Faults) > 0 {
					t.Fatalf("faults %+v in %q", turn.Faults, tt.text)
				}
				return
			}
			if len(turn.Faults) == 0 {
				t.Fatalf("no fault in %q", tt.text)
			}
			f := turn.Faults[0]
			if f.From < 0 || f.From >= f.To || f.To > len(tt.text) || tt.from != anywhere && !strings.HasPrefix(tt.text[f.From:], tt.from) ||
				f.Kind == "" || f.Message == "" {
				t.Errorf("fault %+v in %q", f, tt.text)
			}
		})
	}
}

// TestServerCalls: the state of a call that the server read is that of its arguments.
func TestServerCalls(t *testing.T) {
	for args, want := range map[string]trajectory.CallState{
		`""`: "", `"{}"`: "", `"{\"a\":1}"`: "", `{"a":1}`: "", `" {\"a\": 1} "`: "",
		`"{'a': 1,}"`: trajectory.CallRecovered, `"null"`: trajectory.CallRecovered, `"\"{\\\"a\\\":1}\""`: trajectory.CallRecovered,
		`"{\"a\": \"rm -rf /da"`: trajectory.CallTruncated, `"{\"a\""`: trajectory.CallTruncated, `"{"`: trajectory.CallTruncated,
		`"[1]"`: trajectory.CallMalformed, `"ls -l"`: trajectory.CallMalformed, `"{\"a\": 1} and more"`: trajectory.CallMalformed,
	} {
		answer := `{"choices":[{"message":{"content":"ok","tool_calls":[{"id":"c","function":{"name":"terminal","arguments":` + args + `}}]},"finish_reason":"stop"}]}`
		s := open(t, policytest.Serve(t, answer), chat.Options{}, policy.Options{}, terminal()...)
		turn := policytest.Ask(t, s, trajectory.New(trajectory.ModeText, nil), policytest.User("x"), nil)
		if got := turn.Sampled.Message.Calls[0]; got.State != want {
			t.Errorf("arguments %s: %s, want %s", args, got.State, want)
		}
		if (len(turn.Faults) == 1) != (want != "") || want != "" && turn.Faults[0].Kind != string(want) {
			t.Errorf("arguments %s: faults %+v", args, turn.Faults)
		}
	}
}

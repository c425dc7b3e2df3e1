package chat_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// one asks a server with one answer.
func one(t *testing.T, answer string, stream bool) trajectory.Turn {
	t.Helper()
	s := open(t, policytest.Serve(t, answer), chat.Options{Stream: stream}, policy.Options{})
	return policytest.Ask(t, s, trajectory.New(trajectory.ModeText, nil), policytest.User("x"), nil)
}

func calls(d ...string) string {
	var docs []string
	for _, c := range d {
		docs = append(docs, policytest.Delta(`{"tool_calls":[`+c+`]}`, ""))
	}
	return policytest.SSE(append(docs, policytest.Delta(`{}`, "tool_calls"))...)
}

// head and tail are pieces of calls; arguments are written as in a JSON string.
func head(index int, id, args string) string {
	return fmt.Sprintf(`{"index":%d,"id":"%s","function":{"name":"ls","arguments":"%s"}}`, index, id, args)
}

func tail(index int, args string) string {
	return fmt.Sprintf(`{"index":%d,"function":{"arguments":"%s"}}`, index, args)
}

// What a server mixed up beyond telling is its failure, not the model's.
func TestMixedCalls(t *testing.T) {
	for name, in := range map[string]string{
		"more places than calls": calls(head(0, "a", ``), head(1, "b", ``), tail(1, `{\"p\":1}`), tail(2, `{\"p\"`), tail(3, `:2}`), tail(4, `x`)),
		"places out of order":    calls(head(0, "a", ``), head(1, "b", ``), tail(5, `{\"p\":1}`), tail(1, `{\"p\":2}`)),
		"one place for two":      calls(head(0, "a", `{\"p\"`), head(1, "b", `{\"p\"`), tail(2, `:1}`), tail(2, `:2}`)),
	} {
		p := policytest.Chat(t, policytest.Serve(t, in).URL+"/v1", wire.Options{Retries: -1}, chat.Options{Stream: true})
		if turn, err := policytest.Next(t, p, policy.Options{}, "x", nil); policytest.Kind(err) != policy.Malformed {
			t.Errorf("%s: %+v, %v", name, turn.Sampled.Message.Calls, err)
		}
	}
}

func TestCallsFromDeltas(t *testing.T) {
	ls := func(id, args string) trajectory.Call { return trajectory.Call{ID: id, Name: "ls", Arguments: args} }
	tests := []struct {
		name, in string
		want     []trajectory.Call
	}{
		{
			"two by index",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{"}}`, `{"index":1,"id":"b","function":{"name":"ls","arguments":"{}"}}`,
				`{"index":0,"function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("b", "{}")},
		},
		{
			"same index, other ids",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"index":0,"id":"b","function":{"name":"ls","arguments":"{"}}`,
				`{"index":0,"function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("b", "{}")},
		},
		{"same index, no ids", calls(`{"index":0,"function":{"name":"ls","arguments":"{}"}}`, `{"index":0,"function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("call_1_0", "{}"), ls("call_1_1", "{}")}},
		{
			"id on every piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{"}}`, `{"index":0,"id":"a","function":{"name":"ls","arguments":"}"}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"no index",
			calls(`{"id":"a","function":{"name":"ls","arguments":"{"}}`, `{"function":{"arguments":"}"}}`,
				`{"id":"b","function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("b", "{}")},
		},
		{"index from 1", calls(`{"index":1,"id":"a","function":{"name":"ls","arguments":"{"}}`, `{"index":1,"function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("a", "{}")}},
		{"arguments as an object", calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":{"p":[1]}}}`),
			[]trajectory.Call{ls("a", `{"p":[1]}`)}},
		{
			"two in one piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("b", "{}")},
		},
		{
			"null arguments, then some",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":null}}`, `{"index":0,"id":"","function":{"name":null,"arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"the older form",
			policytest.SSE(policytest.Delta(`{"function_call":{"name":"ls","arguments":"{"}}`, ""), policytest.Delta(`{"function_call":{"arguments":"}"}}`, ""),
				policytest.Delta(`{}`, "function_call")),
			[]trajectory.Call{ls("call_1_0", "{}")},
		},
		{
			"a plain answer to a request for a stream",
			`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"ls","arguments":{}}},{"id":"a","function":{"name":"ls","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
			[]trajectory.Call{ls("a", "{}"), ls("call_1_1", "{}")},
		},
		{
			"one id for two places, in one piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"ls","arguments":"{\"p\":1}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("call_1_1", `{"p":1}`)},
		},
		{
			"one id for two places, in turns",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":""}}`, `{"index":1,"id":"a","function":{"name":"ls","arguments":""}}`,
				`{"index":1,"function":{"arguments":"{\"p\":1}"}}`, `{"index":0,"function":{"arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("call_1_1", `{"p":1}`)},
		},
		{
			"one id and one place for two calls",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\":1}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("call_1_1", `{"p":1}`)},
		},
		{
			"one id for two calls, no index",
			calls(`{"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"id":"a","function":{"name":"ls","arguments":"{"}}`,
				`{"id":"a","function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("call_1_1", "{}")},
		},
		{
			"the id that we would make is taken",
			calls(`{"id":"call_1_1","function":{"name":"ls","arguments":"{}"}}`, `{"id":"call_1_1","function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("call_1_1", "{}"), ls("call_1_1_", "{}")},
		},
		{
			"a new id for each piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}`, `{"index":0,"id":"b","function":{"arguments":":1"}}`,
				`{"index":0,"id":"c","function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("a", `{"p":1}`)},
		},
		{
			"a new id and the name for each piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}`, `{"index":0,"id":"b","function":{"name":"ls","arguments":":1}"}}`),
			[]trajectory.Call{ls("a", `{"p":1}`)},
		},
		{
			"a new id and a new place for each piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}`, `{"index":1,"id":"b","function":{"arguments":":1}"}}`),
			[]trajectory.Call{ls("a", `{"p":1}`)},
		},
		{
			"the head at 0, the tail at 1",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"index":0,"id":"b","function":{"name":"ls","arguments":""}}`,
				`{"index":1,"function":{"arguments":"{\"p\""}}`, `{"index":1,"function":{"arguments":":1}"}}`),
			[]trajectory.Call{ls("a", "{}"), ls("b", `{"p":1}`)},
		},
		{
			"the name in each piece",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}`, `{"index":0,"function":{"name":"ls","arguments":":1}"}}`),
			[]trajectory.Call{ls("a", `{"p":1}`)},
		},
		{
			"the name twice before the arguments",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":""}}`, `{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"the name once more at the end",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"index":0,"id":"a","function":{"name":"ls","arguments":""}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"the name in pieces",
			calls(`{"index":0,"id":"a","function":{"name":"l","arguments":""}}`, `{"index":0,"function":{"name":"s","arguments":""}}`,
				`{"index":0,"function":{"arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"the name, longer each time",
			calls(`{"index":0,"id":"a","function":{"name":"l"}}`, `{"index":0,"function":{"name":"ls"}}`, `{"index":0,"function":{"arguments":"{}"}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{"the id later", calls(`{"index":0,"function":{"name":"ls","arguments":"{"}}`, `{"index":0,"id":"late","function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("late", "{}")}},
		{
			"neither index nor id nor name",
			calls(`{"function":{"name":"ls","arguments":"{"}}`, `{"function":{"arguments":"\"p\":1"}}`, `{"function":{"arguments":"}"}}`),
			[]trajectory.Call{ls("call_1_0", `{"p":1}`)},
		},
		{
			"index and id of odd types",
			calls(`{"index":"0","id":17,"function":{"name":"ls","arguments":"{"}}`, `{"index":0.0,"id":17,"function":{"arguments":"}"}}`,
				`{"index":"1","id":null,"function":{"name":"ls","arguments":"{}"}}`),
			[]trajectory.Call{ls("17", "{}"), ls("call_1_1", "{}")},
		},
		{
			"an empty piece",
			calls(`{"index":0}`, `{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}`, `{"index":1,"id":"","function":{"name":"","arguments":""}}`),
			[]trajectory.Call{ls("a", "{}")},
		},
		{
			"a call without a list",
			policytest.SSE(policytest.Delta(`{"tool_calls":{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}}`, ""),
				policytest.Delta(`{}`, "tool_calls")),
			[]trajectory.Call{ls("a", "{}")},
		},
		{"the head once more at the end", calls(head(0, "a", `{\"p\"`), tail(0, `:1}`), head(0, "a", `{\"p\": 1}`)),
			[]trajectory.Call{ls("a", `{"p":1}`)}},
		{
			"the head once more, behind another",
			calls(head(0, "a", `{\"p\"`), tail(0, `:1}`), head(1, "b", `{\"p\"`), head(0, "a", `{\"p\":1}`), `{"function":{"arguments":":2}"}}`),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)},
		},
		{"all arguments once more", calls(head(0, "a", `{\"p\"`), tail(0, `:1}`), tail(0, `{\"p\":1}`)),
			[]trajectory.Call{ls("a", `{"p":1}`)}},
		{"all arguments behind a half", calls(head(0, "a", `{\"p`), tail(0, `\"`), head(0, "a", `{\"p\":1}`)),
			[]trajectory.Call{ls("a", `{"p":1}`)}},
		{"the tail at a place that is complete", calls(head(0, "a", `{\"p\":1}`), head(1, "b", `{\"p\"`), tail(0, `:`), tail(0, `2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"arguments at a place that is complete", calls(head(0, "a", `{\"p\":1}`), head(1, "b", ``), tail(0, `{\"p\":2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"arguments that grow", calls(head(0, "a", `{\"p`), tail(0, `{\"p\":`), tail(0, `{\"p\":1}`), tail(0, `{\"p\":1}`)),
			[]trajectory.Call{ls("a", `{"p":1}`)}},
		{"arguments that grow, two calls", calls(head(0, "a", `{`), tail(0, `{\"p\":1}`), head(1, "b", ``), tail(1, `{\"p`), tail(1, `{\"p\":2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"an empty object behind", calls(head(0, "a", `{\"p\":`), tail(0, `1}`), tail(0, `{}`), head(1, "b", `{}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{}`)}},
		{"an empty object before", calls(head(0, "a", `{}`), tail(0, `{\"p\":`), tail(0, `1}`)),
			[]trajectory.Call{ls("a", `{"p":1}`)}},
		{"empty objects within", calls(head(0, "a", `{\"p\":`), tail(0, `{}`), tail(0, `}`)),
			[]trajectory.Call{ls("a", `{"p":{}}`)}},
		{"tails one place on", calls(head(0, "a", ``), head(1, "b", ``), tail(1, `{\"p\":1}`), tail(2, `{\"p\":`), tail(2, `2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"tails one place on, in turns", calls(head(0, "a", `{\"p\"`), head(1, "b", `{\"p\"`), tail(1, `:`), tail(2, `:`), tail(1, `1}`), tail(2, `2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"tails one place back", calls(head(1, "a", ``), head(2, "b", ``), tail(0, `{\"p\":1}`), tail(1, `{\"p\":2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"heads and tails in turns, one place on", calls(head(0, "a", ``), tail(1, `{\"p\":1}`), head(1, "b", ``), tail(2, `{\"p\":2}`)),
			[]trajectory.Call{ls("a", `{"p":1}`), ls("b", `{"p":2}`)}},
		{"what the model wrote wrong", calls(head(0, "a", `{\"p\":`), tail(0, `1}}`)),
			[]trajectory.Call{{ID: "a", Name: "ls", Arguments: `{"p":1}}`, State: trajectory.CallMalformed}}},
		{
			"half a character in arguments",
			calls(`{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\":\"\ud83d"}}`, `{"index":0,"function":{"arguments":"\ude00\"}"}}`),
			[]trajectory.Call{ls("a", `{"p":"😀"}`)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			turn := one(t, tt.in, true)
			if got := turn.Sampled.Message.Calls; !reflect.DeepEqual(got, tt.want) || turn.Finish != trajectory.FinishCalls {
				t.Errorf("%s gave %+v (%s), want %+v", tt.in, got, turn.Finish, tt.want)
			}
		})
	}
}

// plainOf and streamOf say the same message in the two forms; content comes byte by byte.
func plainOf(fields, content string) string {
	return `{"choices":[{"message":{` + fields + `"content":` + text(content) + `},"finish_reason":"stop"}]}`
}

func streamOf(fields, content string) string {
	docs := []string{policytest.Delta(`{`+fields+`"content":""}`, "")}
	for _, r := range content {
		docs = append(docs, policytest.Delta(`{"content":`+text(string(r))+`}`, ""))
	}
	return policytest.SSE(append(docs, policytest.Delta(`{}`, "stop"))...)
}

func text(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestReasoningFields(t *testing.T) {
	tests := []struct{ name, fields, content, reasoning, want, replay string }{
		{"reasoning_content", `"reasoning_content":"why",`, "yes", "why", "yes", `"reasoning_content":"why"`},
		{"reasoning", `"reasoning":"why",`, "yes", "why", "yes", `"reasoning":"why"`},
		{
			"details", `"reasoning_details":[{"type":"reasoning.text","text":"why","signature":"s","index":0}],`, "yes", "why", "yes",
			`"reasoning_details":[{"index":0,"signature":"s","text":"why","type":"reasoning.text"}]`,
		},
		{
			"reasoning and details", `"reasoning":"why","reasoning_details":[{"type":"reasoning.encrypted","data":"xx"}],`, "yes",
			"why", "yes", `"reasoning_details":[{"data":"xx","type":"reasoning.encrypted"}]`,
		},
		{"think tags", "", "<think>why</think>\n\nyes", "why", "yes", `"content":"<think>why</think>yes"`},
		{"other tags", "", " \n<REASONING_SCRATCHPAD>why</REASONING_SCRATCHPAD>yes", "why", "yes", `"content":"<think>why</think>yes"`},
		{"a closing tag alone", "", "why\n</think>\n\nyes", "why\n", "yes", `"content":"<think>why\n</think>yes"`},
		{"a tag that stays open", "", "<think>why", "why", "", `"content":"<think>why</think>"`},
		{"a tag in the text", "", "say <think>x</think>", "", "say <think>x</think>", `"content":"say <think>x</think>"`},
		{"almost a tag", "", "<thin", "", "<thin", `"content":"<thin"`},
		{
			"null fields", `"reasoning_content":null,"reasoning":null,"reasoning_details":null,"tool_calls":null,`, "yes", "", "yes",
			`{"role":"assistant","content":"yes"}`,
		},
	}
	for _, tt := range tests {
		for form, answer := range map[string]string{"plain": plainOf(tt.fields, tt.content), "stream": streamOf(tt.fields, tt.content)} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				m := policytest.Serve(t, answer)
				s := open(t, m, chat.Options{Stream: form == "stream"}, policy.Options{})
				tr := trajectory.New(trajectory.ModeText, nil)
				msg := policytest.Ask(t, s, tr, policytest.User("x"), nil).Sampled.Message
				if msg.Reasoning != tt.reasoning || msg.Content() != tt.want {
					t.Errorf("reasoning %q, content %q; want %q, %q", msg.Reasoning, msg.Content(), tt.reasoning, tt.want)
				}
				policytest.Ask(t, s, tr, policytest.User("y"), nil)
				if !strings.Contains(m.Sent()[1], tt.replay) {
					t.Errorf("sent back as %s, want %s", m.Sent()[1], tt.replay)
				}
			})
		}
	}
}

func TestSignaturesAreReplayed(t *testing.T) {
	const details = `"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%s"%s}]`
	m := policytest.Serve(t,
		policytest.SSE(policytest.Delta(`{`+fmt.Sprintf(details, "a", "")+`}`,
			""), policytest.Delta(`{`+fmt.Sprintf(details, "b", `,"signature":"sig"`)+`}`, ""),
			policytest.Delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"ls","arguments":"nope"},"extra_content":{"google":{"thought_signature":"T"}}}]}`,
				"tool_calls")))
	var notes []string
	s := open(t, m, chat.Options{Stream: true}, policy.Options{Notes: func(n string) { notes = append(notes, n) }})
	tr := trajectory.New(trajectory.ModeText, nil)
	if got := policytest.Ask(t, s, tr, policytest.User("x"), nil).Sampled.Message; got.Reasoning != "ab" || got.Calls[1].Arguments != "nope" {
		t.Errorf("message %+v", got)
	}
	policytest.Ask(t, s, tr, policytest.User("y"), nil)
	for _, part := range []string{`"reasoning_details":[{"index":0,"signature":"sig","text":"ab","type":"reasoning.text"}]`,
		`"arguments":"{}"}},{"id":"b"`, `"arguments":"{\"unreadable_arguments\":\"nope\"}"},"extra_content":{"google":{"thought_signature":"T"}}}`} {
		if !strings.Contains(m.Sent()[1], part) || !json.Valid([]byte(m.Sent()[1])) {
			t.Errorf("%s is not in %s", part, m.Sent()[1])
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "wrapped") {
		t.Errorf("notes %q", notes)
	}
}

func TestUsageSpellings(t *testing.T) {
	tests := []struct {
		usage string
		want  trajectory.Usage
	}{
		{`{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":5}`, trajectory.Usage{Prompt: 9, Completion: 4, Cached: 5}},
		{`{"prompt_tokens":9,"completion_tokens":4,"reasoning_tokens":2,"prompt_tokens_details":null}`,
			trajectory.Usage{Prompt: 9, Completion: 4, Reasoning: 2}},
		{`{"prompt_tokens":9,"completion_tokens":4,"cost":0}`, trajectory.Usage{Prompt: 9, Completion: 4, CostKnown: true}},
		{`{"prompt_tokens":9,"completion_tokens":4,"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":0.4}}`,
			trajectory.Usage{Prompt: 9, Completion: 4, Cost: 0.5, CostKnown: true}},
		{`{"input_tokens":9,"output_tokens":4}`, trajectory.Usage{Prompt: 9, Completion: 4}},
		{`{"prompt_tokens":9,"completion_tokens":4,"input_tokens":0,"output_tokens":0}`, trajectory.Usage{Prompt: 9, Completion: 4}},
		{`null`, trajectory.Usage{}},
		{`{"prompt_tokens":9.4,"completion_tokens":"4","reasoning_tokens":null}`, trajectory.Usage{Prompt: 9, Completion: 4}},
		{`{"prompt_tokens":9,"completion_tokens":{},"cached_tokens":-3,"cost":"free"}`, trajectory.Usage{Prompt: 9}},
		{`{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":[],"is_byok":"no"}`, trajectory.Usage{Prompt: 9, Completion: 4}},
		{`"none"`, trajectory.Usage{}},
		{`[]`, trajectory.Usage{}},
	}
	for _, tt := range tests {
		turn := one(t, `{"choices":[{"message":{"content":"x"},"finish_reason":"length"}],"usage":`+tt.usage+`}`, false)
		if turn.Usage != tt.want || turn.Finish != trajectory.FinishLength {
			t.Errorf("%s is %+v (%s), want %+v", tt.usage, turn.Usage, turn.Finish, tt.want)
		}
	}
}

// The last usage of a stream that says something counts.
func TestUsageOfStreams(t *testing.T) {
	piece := func(usage string) string {
		return `{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":` + usage + `}`
	}
	for _, tt := range [][2]string{{`{"prompt_tokens":9,"completion_tokens":1}`, `{"prompt_tokens":9,"completion_tokens":4}`},
		{`{"prompt_tokens":9,"completion_tokens":4}`, `null`}, {`{"prompt_tokens":9,"completion_tokens":4}`, `{"prompt_tokens":0,"completion_tokens":0}`}} {
		turn := one(t, policytest.SSE(piece(tt[0]), piece(tt[1]), policytest.Delta(`{}`, "stop")), true)
		if turn.Usage != (trajectory.Usage{Prompt: 9, Completion: 4}) {
			t.Errorf("%s: %+v", tt, turn.Usage)
		}
	}
}

// Streamed in any pieces or in one, an answer is the same, and no text is lost.
func FuzzThinkTags(f *testing.F) {
	f.Add("<think>a</think>b")
	f.Add(" <thinking>a</think></thinking>\nb</think>")
	f.Add("<thi")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		whole, err1 := chat.Read([]byte(plainOf("", s)))
		pieces, err2 := chat.Read([]byte(streamOf("", s)))
		if err1 != nil || err2 != nil || !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("%q: %+v %v, in pieces %+v %v", s, whole, err1, pieces, err2)
		}
		if n := len(whole.Content()) + len(whole.Reasoning); n > len(s) {
			t.Fatalf("%q became longer: %+v", s, whole)
		}
		if !strings.Contains(s, "think") && !strings.Contains(s, "thought") && !strings.Contains(strings.ToLower(s), "reasoning") && whole.Content() != s {
			t.Fatalf("%q became %q", s, whole.Content())
		}
	})
}

// Whatever a server answers, reading it ends in a message or an error.
func FuzzReadAnswer(f *testing.F) {
	f.Add(policytest.Hello)
	f.Add(calls(`{"index":0,"function":{"name":"ls","arguments":"{}"}}`))
	f.Add(`{"choices":[{"message":{"content":[{"text":"x"}],"reasoning":{"a":1}}}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		m, err := chat.Read([]byte(s))
		if err == nil && m.Role != trajectory.Assistant {
			t.Fatalf("%q: %+v", s, m)
		}
		if len(m.Opaque) > 0 && !json.Valid(m.Opaque) {
			t.Fatalf("%q: opaque %s", s, m.Opaque)
		}
	})
}

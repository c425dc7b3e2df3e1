package chat_test

import (
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// read asks a server that gives one answer, and does not ask again.
func read(t *testing.T, answer string) (trajectory.Turn, error) {
	t.Helper()
	p := policytest.Chat(t, policytest.Serve(t, answer).URL+"/v1", wire.Options{Retries: -1, LimitedRetries: -1}, chat.Options{Stream: true})
	return policytest.Next(t, p, policy.Options{}, "x", nil)
}

// Answers in odd forms whose text is plain all the same.
func TestOddAnswers(t *testing.T) {
	hel, lo := policytest.Delta(`{"content":"Hel"}`, ""), policytest.Delta(`{"content":"lo"}`, "stop")
	message := func(m string) string { return `{"choices":[{"message":` + m + `,"finish_reason":"stop"}]}` }
	for name, in := range map[string]string{
		"two blanks":                    "data:  " + hel + "\n\ndata:  " + lo + "\n\ndata:  [DONE]\n\n",
		"tabs":                          "data:\t" + hel + "\n\ndata:\t" + lo + "\n\ndata:\t[DONE]\n\n",
		"a quoted end mark":             "data: " + hel + "\n\ndata: " + lo + "\n\ndata: \"[DONE]\"\n\n",
		"a blank behind the end mark":   "data: " + hel + "\n\ndata: " + lo + "\n\ndata: [DONE] \n\n",
		"an object a line":              hel + "\n" + lo + "\n",
		"the first line without a name": hel + "\n\ndata: " + lo + "\n\ndata: [DONE]\n\n",
		"the whole behind the pieces":   policytest.SSE(hel, policytest.Delta(`{"content":"lo"}`, ""), message(`{"content":"Hello"}`)),
		"the whole behind no text":      policytest.SSE(policytest.Delta(`{"role":"assistant","content":""}`, ""), message(`{"content":"Hello"}`)),
		"the older form":                `{"choices":[{"index":0,"text":"Hello","finish_reason":"stop"}]}`,
		"a part with a value":           message(`{"content":[{"type":"text","text":{"value":"Hello","annotations":[]}}]}`),
		"a refusal that is a flag":      message(`{"content":"Hello","refusal":false}`),
		"details that are an object":    message(`{"content":"Hello","reasoning_details":{}}`),
		"details that are a text":       message(`{"content":"Hello","reasoning_details":"none"}`),
		"calls that are a flag":         message(`{"content":"Hello","tool_calls":false}`),
		"an empty error":                `{"error":{},` + message(`{"content":"Hello"}`)[1:],
		"an error of code 0":            `{"error":{"code":0,"message":"success"},` + message(`{"content":"Hello"}`)[1:],
		"an error that is a flag":       `{"error":false,` + message(`{"content":"Hello"}`)[1:],
	} {
		turn, err := read(t, in)
		if err != nil || turn.Sampled.Message.Content() != "Hello" || len(turn.Sampled.Message.Calls) > 0 {
			t.Errorf("%s: %+v, %v", name, turn.Sampled.Message, err)
		}
	}
}

// What looks like an answer and says that it is none.
func TestAnswersThatFailed(t *testing.T) {
	half := policytest.Delta(`{"content":"Hel"}`, "")
	for name, in := range map[string]string{
		"an error beside the choice": `{"error":{"message":"boom","code":502},"choices":[{"message":{"content":"Hel"},"finish_reason":"stop"}]}`,
		"an error beside the last piece": policytest.SSE(half,
			`{"error":{"message":"boom"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}`),
		"an error that is a sentence": `{"error":"boom","choices":[{"message":{"content":"Hel"},"finish_reason":"stop"}]}`,
		"an event of the type error": "data: " + half + "\n\nevent: error\ndata: {\"message\":\"boom\"}\n\ndata: " + policytest.Delta(`{}`,
			"stop") + "\n\n",
		"words in an event of that type":   "data: " + half + "\n\nevent: error\ndata: boom\n\ndata: " + policytest.Delta(`{}`, "stop") + "\n\n",
		"an error without the member":      `{"object":"error","message":"boom","code":50001}`,
		"a choice without a message":       `{"choices":[{"index":0,"message":null,"finish_reason":"stop"},{"boom":1}]}`,
		"another message behind its parts": policytest.SSE(half, `{"choices":[{"message":{"content":"boom"},"finish_reason":"stop"}]}`),
	} {
		if turn, err := read(t, in); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("%s: %+v, %v", name, turn.Sampled.Message, err)
		}
	}
	for _, in := range []string{half + "\n" + half + "\n", policytest.SSE(half)} { // asked for as one document, and cut
		p := policytest.Chat(t, policytest.Serve(t, in).URL+"/v1", wire.Options{Retries: -1}, chat.Options{})
		if turn, err := policytest.Next(t, p, policy.Options{}, "x", nil); policytest.Kind(err) != policy.Malformed {
			t.Errorf("%q: %+v, %v", in, turn.Sampled.Message, err)
		}
	}
}

// Calls in odd forms: one call, with its arguments.
func TestOddCalls(t *testing.T) {
	message := func(m string) string {
		return `{"choices":[{"message":{"content":null,` + m + `},"finish_reason":"tool_calls"}]}`
	}
	const one = `{"id":"a","type":"function","function":{"name":"ls","arguments":"{\"p\":1}"}}`
	head0 := `{"index":0,"id":"i0","function":{"name":"ls","arguments":""}}`
	for name, in := range map[string]string{
		"without the member function": message(`"tool_calls":[{"id":"a","name":"ls","arguments":"{\"p\":1}"}]`),
		"parameters":                  message(`"tool_calls":[{"id":"a","function":{"name":"ls","parameters":{"p":1}}}]`),
		"input":                       message(`"tool_calls":[{"id":"a","function":{"name":"ls","input":{"p":1}}}]`),
		"both forms":                  message(`"tool_calls":[` + one + `],"function_call":{"name":"ls","arguments":"{\"p\":1}"}`),
		"the whole behind the pieces": policytest.SSE(policytest.Delta(`{"tool_calls":[`+head(0, "a", `{\"p\"`)+`]}`,
			""), policytest.Delta(`{"tool_calls":[`+tail(0, `:1}`)+`]}`, ""),
			message(`"tool_calls":[`+one+`]`)),
		"a new id and the name for each piece": calls(head0, head(0, "i1", `{\"p\"`), head(0, "i2", `:1}`)),
	} {
		turn, err := read(t, in)
		if c := turn.Sampled.Message.Calls; err != nil || len(c) != 1 || c[0].Name != "ls" || strings.ReplaceAll(c[0].Arguments, " ", "") != `{"p":1}` {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// A key with two values says two things, in a server's call as in a family's.
func TestDoubledKeysOfServers(t *testing.T) {
	for args, want := range map[string]trajectory.CallState{
		`{\"p\":1,\"p\":2}`:             trajectory.CallMalformed,
		`{\"o\":{\"p\":1,\"p\":\"1\"}}`: trajectory.CallMalformed,
		`{\"p\":1,\"p\":1}`:             trajectory.CallComplete,
		`{\"p\":1,\"q\":{\"p\":2}}`:     trajectory.CallComplete,
	} {
		turn, err := read(t, calls(head(0, "a", args)))
		if c := turn.Sampled.Message.Calls; err != nil || len(c) != 1 || c[0].State != want || (want == trajectory.CallMalformed) != (len(turn.Faults) == 1) {
			t.Errorf("%s: %+v, %+v, %v", args, c, turn.Faults, err)
		}
	}
}

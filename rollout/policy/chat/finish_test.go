package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// No answer that the server broke off counts as one of the model, plain or streamed.
func TestFinishReasons(t *testing.T) {
	for want, words := range policytest.Endings() {
		for _, word := range words {
			for form, answer := range map[string]string{"plain": `{"choices":[{"message":{"content":"The answer is"},"finish_reason":"` + word + `"}]}`,
				"stream": policytest.SSE(policytest.Delta(`{"content":"The answer is"}`, ""), policytest.Delta(`{}`, word))} {
				base := policytest.Serve(t, answer).URL + "/v1"
				turn, err := policytest.Next(t, policytest.Chat(t, base, wire.Options{Retries: -1}, chat.Options{Stream: form == "stream"}),
					policy.Options{}, "x", nil)
				got := string(turn.Finish)
				if err != nil {
					got = string(policytest.Kind(err))
				}
				if got != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", word)) {
					t.Errorf("%s, %s: %s (%v), want %s", word, form, got, err, want)
				}
			}
		}
	}
}

// No word softens what was said before, a router hides nothing of its provider's, and calls
// that were announced must have come.
func TestFinishReasonsTogether(t *testing.T) {
	const call = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`
	native := func(finish, native string) string {
		if finish != "" {
			finish = `"finish_reason":"` + finish + `",`
		}
		return `{"choices":[{"index":0,"delta":{},` + finish + `"native_finish_reason":"` + native + `"}]}`
	}
	half := policytest.Delta(`{"content":"Half"}`, "")
	tests := []struct {
		name string
		docs []string
		want string
	}{
		{"a filter, then stop", []string{half, policytest.Delta(`{}`, "content_filter"), policytest.Delta(`{}`, "stop")}, string(trajectory.FinishFilter)},
		{"a limit, then stop", []string{half, policytest.Delta(`{}`, "length"), policytest.Delta(`{}`, "STOP")}, "length"},
		{"a limit, then calls", []string{policytest.Delta(call, "length"), policytest.Delta(`{}`, "tool_calls")}, "length"},
		{"broken off, then stop", []string{half, policytest.Delta(`{}`, "abort"), policytest.Delta(`{}`, "stop")}, "unavailable"},
		{"unknown, then stop", []string{half, policytest.Delta(`{}`, "what_is_this"), policytest.Delta(`{}`, "stop")}, "malformed"},
		{"stop, then a filter", []string{half, policytest.Delta(`{}`, "stop"), policytest.Delta(`{}`, "content_filter")}, string(trajectory.FinishFilter)},
		{"a limit, then a filter", []string{half, policytest.Delta(`{}`, "length"), policytest.Delta(`{}`, "content_filter")}, "length"},
		{"stop twice", []string{half, policytest.Delta(`{}`, "stop"), policytest.Delta(`{}`, "stop")}, "stop"},
		{"calls without a call", []string{half, policytest.Delta(`{}`, "tool_calls")}, "malformed"},
		{"calls without a call, then stop", []string{half, policytest.Delta(`{}`, "tool_use"), policytest.Delta(`{}`, "stop")}, "malformed"},
		{"the older form without a call", []string{half, policytest.Delta(`{}`, "function_call")}, "malformed"},
		{"calls", []string{policytest.Delta(call, "tool_calls")}, "tool_calls"},
		{"a lost call of the provider's", []string{half, native("stop", "MALFORMED_FUNCTION_CALL")}, "unavailable"},
		{"a lost call beside others", []string{policytest.Delta(call, ""), native("tool_calls", "MALFORMED_FUNCTION_CALL")}, "unavailable"},
		{"the provider's filter", []string{half, native("stop", "SAFETY")}, string(trajectory.FinishFilter)},
		{"the provider's limit", []string{half, native("stop", "MAX_TOKENS")}, "length"},
		{"the provider's limit, before", []string{half, native("", "max_tokens"), policytest.Delta(`{}`, "stop")}, "length"},
		{"the provider's word for stop", []string{half, native("stop", "STOP")}, "stop"},
		{"a word of the provider's that is not known", []string{half, native("stop", "tool_parser_17")}, "stop"},
		{"the provider goes on", []string{native("", "in_progress"), half, native("stop", "completed")}, "stop"},
	}
	for _, tt := range tests {
		plain := strings.Replace(tt.docs[0], `"delta"`, `"message"`, 1)
		if len(tt.docs) == 2 && !strings.Contains(tt.docs[0], "finish_reason") { // the same in one document
			_, tail, _ := strings.Cut(tt.docs[1], `"delta":{}`)
			plain = strings.TrimSuffix(plain, "}]}") + tail
		} else {
			plain = ""
		}
		for form, answer := range map[string]string{"plain": plain, "stream": policytest.SSE(tt.docs...)} {
			if answer == "" {
				continue
			}
			base := policytest.Serve(t, answer).URL + "/v1"
			turn, err := policytest.Next(t, policytest.Chat(t, base, wire.Options{Retries: -1}, chat.Options{Stream: form == "stream"}),
				policy.Options{}, "x", nil)
			got := string(turn.Finish)
			if err != nil {
				got = string(policytest.Kind(err))
			}
			if got != tt.want {
				t.Errorf("%s, %s: %s (%v), want %s: %s", tt.name, form, got, err, tt.want, answer)
			}
		}
	}
}

// What is broken off is asked for again.
func TestAbortedChatIsAskedAgain(t *testing.T) {
	for _, word := range []string{"abort", "network_error", "insufficient_system_resource", "quota_exhausted_reason"} {
		m := policytest.Serve(t, policytest.SSE(policytest.Delta(`{"content":"The answer is"}`, word)),
			policytest.SSE(policytest.Delta(`{"content":"The answer is 42"}`, "stop")))
		s := open(t, m, chat.Options{Stream: true}, policy.Options{})
		turn := policytest.Ask(t, s, trajectory.New(trajectory.ModeText, nil), policytest.User("x"), nil)
		if got := turn.Sampled.Message.Content(); got != "The answer is 42" || len(m.Sent()) != 2 {
			t.Errorf("%s: %q after %d requests", word, got, len(m.Sent()))
		}
	}
}

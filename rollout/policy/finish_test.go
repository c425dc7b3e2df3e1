package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// No answer that the server broke off counts as one of the model, plain or streamed.
func TestFinishReasons(t *testing.T) {
	for want, words := range endings() {
		for _, word := range words {
			for form, answer := range map[string]string{"plain": `{"choices":[{"message":{"content":"The answer is"},"finish_reason":"` + word + `"}]}`,
				"stream": sse(delta(`{"content":"The answer is"}`, ""), delta(`{}`, word))} {
				base := serve(t, answer).URL + "/v1"
				turn, err := next(t, chatAt(t, base, wire.Options{Retries: -1}, policy.ChatOptions{Stream: form == "stream"}), policy.Options{}, "x", nil)
				got := string(turn.Finish)
				if err != nil {
					got = string(errorKind(err))
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
	half := delta(`{"content":"Half"}`, "")
	tests := []struct {
		name string
		docs []string
		want string
	}{
		{"a filter, then stop", []string{half, delta(`{}`, "content_filter"), delta(`{}`, "stop")}, string(trajectory.FinishFilter)},
		{"a limit, then stop", []string{half, delta(`{}`, "length"), delta(`{}`, "STOP")}, "length"},
		{"a limit, then calls", []string{delta(call, "length"), delta(`{}`, "tool_calls")}, "length"},
		{"broken off, then stop", []string{half, delta(`{}`, "abort"), delta(`{}`, "stop")}, "unavailable"},
		{"unknown, then stop", []string{half, delta(`{}`, "what_is_this"), delta(`{}`, "stop")}, "malformed"},
		{"stop, then a filter", []string{half, delta(`{}`, "stop"), delta(`{}`, "content_filter")}, string(trajectory.FinishFilter)},
		{"a limit, then a filter", []string{half, delta(`{}`, "length"), delta(`{}`, "content_filter")}, "length"},
		{"stop twice", []string{half, delta(`{}`, "stop"), delta(`{}`, "stop")}, "stop"},
		{"calls without a call", []string{half, delta(`{}`, "tool_calls")}, "malformed"},
		{"calls without a call, then stop", []string{half, delta(`{}`, "tool_use"), delta(`{}`, "stop")}, "malformed"},
		{"the older form without a call", []string{half, delta(`{}`, "function_call")}, "malformed"},
		{"calls", []string{delta(call, "tool_calls")}, "tool_calls"},
		{"a lost call of the provider's", []string{half, native("stop", "MALFORMED_FUNCTION_CALL")}, "unavailable"},
		{"a lost call beside others", []string{delta(call, ""), native("tool_calls", "MALFORMED_FUNCTION_CALL")}, "unavailable"},
		{"the provider's filter", []string{half, native("stop", "SAFETY")}, string(trajectory.FinishFilter)},
		{"the provider's limit", []string{half, native("stop", "MAX_TOKENS")}, "length"},
		{"the provider's limit, before", []string{half, native("", "max_tokens"), delta(`{}`, "stop")}, "length"},
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
		for form, answer := range map[string]string{"plain": plain, "stream": sse(tt.docs...)} {
			if answer == "" {
				continue
			}
			base := serve(t, answer).URL + "/v1"
			turn, err := next(t, chatAt(t, base, wire.Options{Retries: -1}, policy.ChatOptions{Stream: form == "stream"}), policy.Options{}, "x", nil)
			got := string(turn.Finish)
			if err != nil {
				got = string(errorKind(err))
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
		m := serve(t, sse(delta(`{"content":"The answer is"}`, word)), sse(delta(`{"content":"The answer is 42"}`, "stop")))
		s := open(t, m, policy.ChatOptions{Stream: true}, policy.Options{})
		turn := ask(t, s, trajectory.New(trajectory.ModeText, nil), user("x"), nil)
		if got := turn.Sampled.Message.Content(); got != "The answer is 42" || len(m.sent()) != 2 {
			t.Errorf("%s: %q after %d requests", word, got, len(m.sent()))
		}
	}
}

package chat_test

import (
	"testing"

	"hermes/rollout/policy/policytest"
)

// The books of an answer, wherever a server puts them and however often.
func TestBooksInOddPlaces(t *testing.T) {
	a, b := policytest.Delta(`{"content":"x"}`, ""), policytest.Delta(`{}`, "stop")
	u := func(m string) string { return `{"choices":[],"usage":` + m + `}` }
	const full = `{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}`
	plain := func(choice, more string) string {
		return `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"` + choice + `}]` + more + `}`
	}
	for name, in := range map[string]string{
		"plain":           plain("", `,"usage":`+full),
		"at the end":      policytest.SSE(a, b, u(full)),
		"zeros behind it": policytest.SSE(a, u(full), b, u(`{"prompt_tokens":0,"completion_tokens":0}`)),
		"null behind it":  policytest.SSE(a, u(full), b, u(`null`)),
		"text behind it":  policytest.SSE(a, u(full), b, u(`"none"`)),
		"halves": policytest.SSE(u(`{"prompt_tokens":7,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":2}}`),
			a, b, u(`{"completion_tokens":3}`)),
		"halves of other words": policytest.SSE(u(`{"input_tokens":7,"output_tokens":1,"cached_tokens":2}`), a, b, u(`{"output_tokens":3}`)),
		"counting up":           policytest.SSE(u(`{"prompt_tokens":7,"completion_tokens":1}`), a, b, u(full)),
		"null details at last":  policytest.SSE(u(full), a, b, u(`{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":null}`)),
		"in the choice":         plain(`,"usage":`+full, ""),
		"in the choice, stream": policytest.SSE(a, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":`+full+`}]}`),
		"text in the choice":    plain(`,"usage":"none"`, `,"usage":`+full),
		"in x_groq":             policytest.SSE(a, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":`+full+`}}`),
		"x_groq without them":   policytest.SSE(`{"choices":[{"index":0,"delta":{"content":"x"}}],"x_groq":{"id":"r"}}`, b, u(full)),
		"x_groq as text":        policytest.SSE(`{"choices":[{"index":0,"delta":{"content":"x"}}],"x_groq":"r"}`, b, u(full)),
		"floats and text":       policytest.SSE(a, b, u(`{"prompt_tokens":7.0,"completion_tokens":"3","prompt_tokens_details":{"cached_tokens":"2"}}`)),
		"a detail of wrong form": policytest.SSE(a, b,
			u(`{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":2,"prompt_tokens_details":"none"}`)),
	} {
		turn, err := read(t, in)
		got := turn.Usage
		if want := int64(2); name != "counting up" && got.Cached != want && err == nil {
			t.Errorf("%s: %d tokens from the cache", name, got.Cached)
		}
		if err != nil || got.Prompt != 7 || got.Completion != 3 || turn.Sampled.Message.Content() != "x" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

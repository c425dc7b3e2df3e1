package fakellm_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"hermes/internal/fakellm"
)

type obj = map[string]any

// start serves opt and returns its address.
func start(t testing.TB, opt fakellm.Options) (string, *fakellm.Server) {
	t.Helper()
	s, err := fakellm.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL, s
}

func post(t testing.TB, url string, body any) (int, []byte) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	out, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, out
}

func user(text string) []any { return []any{obj{"role": "user", "content": text}} }

type chatAnswer struct {
	Choices []struct {
		Message struct {
			Content   *string
			Reasoning string `json:"reasoning_content"`
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string  `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
		Logprobs     *struct{ Content []struct{ Logprob float64 } }
	}
	Usage          struct{ PromptTokens, CompletionTokens int }
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
}

func chat(t testing.TB, url string, body obj) chatAnswer {
	t.Helper()
	code, raw := post(t, url+"/v1/chat/completions", body)
	var a chatAnswer
	if err := json.Unmarshal(raw, &a); code != 200 || err != nil || len(a.Choices) == 0 {
		t.Fatalf("status %d, error %v: %s", code, err, raw)
	}
	return a
}

func TestScriptInRequest(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	script := []obj{
		{"reasoning": "first look", "calls": []obj{{"name": "terminal", "arguments": obj{"command": "ls \"x\""}}}},
		{"content": "task {{task}}, said {{last_result}}, out {{last_result.output}}, {{other}} {{turn}}"},
	}
	a := chat(t, url, obj{"model": "m", "messages": user("do it"), "hermes_script": script})
	m := a.Choices[0].Message
	if m.Content != nil || m.Reasoning != "first look" || len(m.ToolCalls) != 1 || m.ToolCalls[0].Function.Arguments != `{"command":"ls \"x\""}` ||
		a.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("turn 0: %+v", a)
	}
	msgs := append(user("do it"), obj{
		"role":    "assistant",
		"content": nil,
	}, obj{"role": "tool", "tool_call_id": m.ToolCalls[0].ID, "content": `{"output":"a\nb"}`})
	a = chat(t, url, obj{"model": "m", "messages": msgs, "hermes_script": script})
	want := "task do it, said {\"output\":\"a\\nb\"}, out a\nb, {{other}} 1"
	if got := *a.Choices[0].Message.Content; got != want {
		t.Fatalf("turn 1: %q, want %q", got, want)
	}
}

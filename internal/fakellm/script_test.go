package fakellm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/internal/fakellm"
)

func TestScriptFile(t *testing.T) {
	file := `{"match":"apples","turns":[{"content":"red"},{"content":"more","repeat":true}]}

{"match":"/^p(ea|lu)/","turns":[{"content":"green","again":[{"content":"blue"}]}]}
`
	scripts, err := fakellm.ReadScripts(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := start(t, fakellm.Options{Scripts: scripts, Default: []fakellm.Turn{{Content: "default"}}})
	said := func(msgs []any) string {
		return *chat(t, url, obj{"model": "m", "messages": msgs}).Choices[0].Message.Content
	}
	assistant := obj{"role": "assistant", "content": "x"}
	for _, tt := range []struct {
		msgs []any
		want string
	}{
		{user("my apples"), "red"},
		{append(user("my apples"), assistant, assistant, assistant), "more"},
		{[]any{obj{"role": "user", "content": []obj{{"type": "text", "text": "pe"}, {"type": "text", "text": "ars"}}}}, "green"},
		{[]any{obj{"role": "user", "content": []obj{{"type": "text", "text": "pe"}, {"type": "text", "text": "ars"}}}}, "blue"},
		{user("a pear"), "default"},
		{append(user("a pear"), assistant), "I have nothing more to do."},
	} {
		if got := said(tt.msgs); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.msgs, got, tt.want)
		}
	}
	for _, bad := range []string{`{"match":"x"}`, `{"turns":[{}],"other":1}`, `{"match":"/(/","turns":[{}]}`, "\n\nnope"} {
		if _, err := fakellm.ReadScripts(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The built-in agent calls tools of the request, the same ones every time, then answers.
func TestAgent(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	tool := func(name, schema string) obj {
		return obj{"type": "function", "function": obj{"name": name, "parameters": json.RawMessage(schema)}}
	}
	for _, tools := range [][]obj{
		{tool("terminal", `{}`), tool("write_file", `{}`), tool("read_file", `{}`)},
		{tool("weather",
			`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"units":{"enum":["C","F"]}},"required":["city","days","units"]}`)},
		nil,
	} {
		for _, task := range []string{"one", "two", "three"} {
			msgs := user(task)
			var calls int
			for turn := 0; ; turn++ {
				if turn > 6 {
					t.Fatalf("%v: no end", tools)
				}
				body := obj{"model": "m", "messages": msgs, "tools": tools}
				a, b := chat(t, url, body).Choices[0].Message, chat(t, url, body).Choices[0].Message
				if len(a.ToolCalls) == 0 {
					if calls > 0 && !strings.Contains(*a.Content, "result-of-last") {
						t.Errorf("answer %q", *a.Content)
					}
					break
				}
				c := a.ToolCalls[0].Function
				if c != b.ToolCalls[0].Function || !json.Valid([]byte(c.Arguments)) {
					t.Errorf("call %+v", c)
				}
				if c.Name == "weather" && c.Arguments != `{"city":"example","days":1,"units":"C"}` {
					t.Errorf("arguments %s", c.Arguments)
				}
				calls++
				msgs = append(msgs, obj{"role": "assistant", "content": nil}, obj{"role": "tool", "content": "result-of-last"})
			}
			if (calls > 0) != (tools != nil) {
				t.Errorf("%d calls with %d tools", calls, len(tools))
			}
		}
	}
}

// A limit of tokens cuts the answer and says so; token ids stay within it.
func TestMaxTokens(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	body := obj{"model": "m", "messages": user("x"), "max_tokens": 10, "hermes_script": []obj{{"content": strings.Repeat("ä", 100)}}}
	a := chat(t, url, body).Choices[0]
	if a.FinishReason != "length" || *a.Message.Content != strings.Repeat("ä", 5) {
		t.Errorf("%q, %s", *a.Message.Content, a.FinishReason)
	}
	body["return_token_ids"], body["logprobs"] = true, true
	got := chat(t, url, body)
	a = got.Choices[0]
	if len(a.TokenIDs) > 10 || a.FinishReason != "length" || len(a.Logprobs.Content) != len(a.TokenIDs) || len(got.PromptTokenIDs) == 0 ||
		(fakellm.Bytes{}).Decode(a.TokenIDs) != *a.Message.Content {
		t.Errorf("%+v", got)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"a\\\"b"}],"tools":[{}],"hermes_script":[{"content":"{{task}}"}]}`))
	f.Add([]byte(`{"prompt":[1,2,{"a":"]"}],"n":2}`))
	f.Add([]byte("{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\\u00"))
	f.Fuzz(func(t *testing.T, body []byte) { requestFuzz(t, body) })
}

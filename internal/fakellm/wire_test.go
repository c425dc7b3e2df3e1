package fakellm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hermes/internal/fakellm"
)

func TestStreamEqualsPlain(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	turn := obj{"content": "héllo wörld, a text that is longer than one piece of a stream ✓✓✓✓✓✓✓✓✓", "reasoning": "because of this and that and some more",
		"calls": []obj{{"name": "a", "arguments": obj{"x": "a long argument that is sent in pieces"}}, {"name": "b", "arguments": "{broken"}}}
	body := obj{"model": "m", "messages": user("hi"), "hermes_script": []obj{turn}}
	plain := chat(t, url, body)
	body["stream"], body["stream_options"] = true, obj{"include_usage": true}
	_, raw := post(t, url+"/v1/chat/completions", body)
	var content, reasoning, finish string
	type piece struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	}
	var calls []piece
	usage, done := 0, false
	for line := range strings.SplitSeq(string(raw), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content   string
					Reasoning string  `json:"reasoning_content"`
					ToolCalls []piece `json:"tool_calls"`
				}
				FinishReason *string `json:"finish_reason"`
			}
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if c.Usage != nil {
			usage = c.Usage.CompletionTokens
			continue
		}
		d := c.Choices[0].Delta
		content, reasoning = content+d.Content, reasoning+d.Reasoning
		for _, p := range d.ToolCalls {
			if p.Index == len(calls) {
				calls = append(calls, p)
				continue
			}
			calls[p.Index].Function.Arguments += p.Function.Arguments
		}
		if f := c.Choices[0].FinishReason; f != nil {
			finish = *f
		}
	}
	m := plain.Choices[0].Message
	if !done || usage == 0 || content != *m.Content || reasoning != m.Reasoning || finish != "tool_calls" || len(calls) != 2 ||
		calls[0].Function.Arguments != m.ToolCalls[0].Function.Arguments || calls[1].Function.Arguments != "{broken" || calls[1].ID != m.ToolCalls[1].ID {
		t.Fatalf("done %v usage %d content %q reasoning %q finish %q calls %+v\nplain %+v", done, usage, content, reasoning, finish, calls, m)
	}
}

func TestTokenForms(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	tok := fakellm.Bytes{}
	prompt := "<|im_start|>user\nadd<|im_end|>\n<|im_start|>assistant\n"
	script := []obj{{"reasoning": "hm", "content": "ok", "calls": []obj{{"name": "f", "arguments": obj{"a": 1}}}}}
	want := "<think>\nhm\n</think>\n\nok\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"
	ids := append(tok.Encode(want), tok.End())
	check := func(name string, got []int32, lps int) {
		if !slices.Equal(got, ids) || lps != len(ids) {
			t.Errorf("%s: %q with %d log-probs", name, tok.Decode(got), lps)
		}
	}
	dec := func(path string, body obj, v any) {
		body["hermes_script"] = script
		code, raw := post(t, url+path, body)
		if err := json.Unmarshal(raw, v); code != 200 || err != nil {
			t.Fatalf("%s: %d %v %s", path, code, err, raw)
		}
	}

	var comp struct {
		Choices []struct {
			Text      string
			TokenIDs  []int32 `json:"token_ids"`
			PromptIDs []int32 `json:"prompt_token_ids"`
			Logprobs  struct {
				TokenLogprobs []float64 `json:"token_logprobs"`
			}
		}
	}
	dec("/v1/completions", obj{"model": "m", "prompt": tok.Encode(prompt), "max_tokens": 500, "logprobs": 0, "return_token_ids": true}, &comp)
	check("completions", comp.Choices[0].TokenIDs, len(comp.Choices[0].Logprobs.TokenLogprobs))
	if comp.Choices[0].Text != want || !slices.Equal(comp.Choices[0].PromptIDs, tok.Encode(prompt)) {
		t.Errorf("completions: %+v", comp)
	}

	var sg struct {
		Text string
		IDs  []int32 `json:"output_ids"`
		Meta struct {
			Finish   struct{ Type string } `json:"finish_reason"`
			Logprobs [][]any               `json:"output_token_logprobs"`
		} `json:"meta_info"`
	}
	params := obj{"max_new_tokens": 500, "temperature": 1}
	dec("/generate", obj{"input_ids": tok.Encode(prompt), "sampling_params": params, "return_logprob": true}, &sg)
	check("sglang", sg.IDs, len(sg.Meta.Logprobs))
	var two []json.RawMessage
	params["n"] = 2
	dec("/generate", obj{"input_ids": tok.Encode(prompt), "sampling_params": params}, &two)
	if len(two) != 2 || sg.Meta.Finish.Type != "stop" {
		t.Errorf("sglang n=2: %d answers, finish %q", len(two), sg.Meta.Finish.Type)
	}

	var at struct {
		Text     []string
		IDs      [][]int32                `json:"token_ids"`
		Logprobs [][][]map[string]float64 `json:"logprobs"`
	}
	dec("/generate", obj{"prompt": obj{"prompt_token_ids": tok.Encode(prompt)}, "max_tokens": 500, "logprobs": 0}, &at)
	check("atropos", at.IDs[0], len(at.Logprobs[0]))

	var inf struct {
		Choices []struct {
			IDs      []int32 `json:"token_ids"`
			Logprobs struct{ Content []any }
		}
	}
	dec("/inference/v1/generate", obj{"token_ids": tok.Encode(prompt), "sampling_params": obj{"max_tokens": 500, "logprobs": 1}}, &inf)
	check("inference", inf.Choices[0].IDs, len(inf.Choices[0].Logprobs.Content))

	script[0]["content"] = strings.Repeat("long ", 50)
	dec("/generate", obj{"text": prompt, "sampling_params": obj{"max_new_tokens": 20}}, &sg)
	if len(sg.IDs) != 20 || sg.Meta.Finish.Type != "length" {
		t.Errorf("cut: %d ids, finish %q", len(sg.IDs), sg.Meta.Finish.Type)
	}
}

// The log-probs, token ids and text of a streamed completion equal those of the plain one.
func TestCompletionStream(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	body := obj{"model": "m", "prompt": "x", "max_tokens": 500, "logprobs": 0, "return_token_ids": true, "stream": true,
		"hermes_script": []obj{{"content": "añb✓c, und so weiter: ÄÖÜ und noch mehr Zeichen ✓✓✓"}}}
	_, raw := post(t, url+"/v1/completions", body)
	var text string
	var ids []int32
	lps := 0
	in := bufio.NewScanner(bytes.NewReader(raw))
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct {
				Text     string
				TokenIDs []int32 `json:"token_ids"`
				Logprobs struct {
					TokenLogprobs []float64 `json:"token_logprobs"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatal(err)
		}
		text += c.Choices[0].Text
		ids = append(ids, c.Choices[0].TokenIDs...)
		lps += len(c.Choices[0].Logprobs.TokenLogprobs)
	}
	want := "añb✓c, und so weiter: ÄÖÜ und noch mehr Zeichen ✓✓✓"
	if text != want || (fakellm.Bytes{}).Decode(ids) != want+"<|im_end|>" || lps != len(ids) {
		t.Fatalf("text %q, ids say %q, %d log-probs", text, fakellm.Bytes{}.Decode(ids), lps)
	}
}

func TestRefusals(t *testing.T) {
	url, s := start(t, fakellm.Options{Models: []string{"m"}, Key: "secret", ContextLength: 100})
	long := strings.Repeat("x", 500)
	for _, tt := range []struct {
		name, key, body string
		status          int
		want            string
	}{
		{"no key", "", `{}`, 401, "invalid_api_key"},
		{"wrong key", "other", `{}`, 401, "invalid_api_key"},
		{"unknown model", "secret", `{"model":"z","messages":[{"role":"user","content":"hi"}]}`, 404, "model_not_found"},
		{"no JSON", "secret", `{"model":"m"`, 400, "invalid_request_error"},
		{"no messages", "secret", `{"model":"m"}`, 400, "field required"},
		{"empty messages", "secret", `{"model":"m","messages":[ ]}`, 400, "at least one message"},
		{"a tool that is not there", "secret", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":"required"}`, 400, "tool_choice"},
		{"too long", "secret", `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]}`, 400, "maximum context length is 100 tokens"},
		{
			"answer too long",
			"secret",
			`{"model":"m","max_tokens":90,"messages":[{"role":"user","content":"` + long[:80] + `"}]}`,
			400,
			"context_length_exceeded",
		},
		{"bad script", "secret", `{"model":"m","messages":[{"role":"user","content":"hi"}],"hermes_script":[{"fault":"zzz"}]}`, 400, "unknown fault"},
		{"good", "secret", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 200, `"finish_reason":"stop"`},
	} {
		r, _ := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader(tt.body))
		if tt.key != "" {
			r.Header.Set("Authorization", "Bearer "+tt.key)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || !strings.Contains(string(raw), tt.want) || strings.Contains(string(raw), "secret") {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, raw)
		}
	}
	if st := s.Stats(); st.Answers != 1 || st.Refused != 10 {
		t.Errorf("stats %+v", st)
	}
}

// TestPromptIDs: a list of ids is read as JSON has it, and nothing else is.
func TestPromptIDs(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	for ids, want := range map[string]string{
		`[104,105]`: `"prompt_tokens":2,`, " [ 104 ,\n105 ] ": `"prompt_tokens":2,`, `[0,2147483647]`: `"prompt_tokens":2,`, `[]`: `"prompt_tokens":0,`,
		`[[104,105,33]]`: `"prompt_tokens":3,`,
		`[104,]`:         "token id", `[,104]`: "token id", `[-1]`: "token id", `[1.5]`: "token id", `[2147483648]`: "token id", `[99999999999999999999]`: "token id",
		`[104 105]`: "token id", `[104,"a"]`: "token id", `104`: "not a valid JSON object",
	} {
		resp, err := http.Post(url+"/generate", "application/json", strings.NewReader(`{"input_ids":`+ids+`,"hermes_script":[{"content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if good := strings.HasPrefix(want, `"`); err != nil || !strings.Contains(string(raw), want) || good != (resp.StatusCode == 200) {
			t.Errorf("%s: %d %s, want %s, %v", ids, resp.StatusCode, raw, want, err)
		}
	}
}

func TestPages(t *testing.T) {
	url, _ := start(t, fakellm.Options{Models: []string{"m"}, ContextLength: 9})
	for path, want := range map[string]string{
		"/v1/models": `"id":"m"`, "/v1/models/m": `{"created":`, "/v1/models/x/y": "model_not_found", "/metrics": `vllm:num_requests_waiting{model_name="m"} 0`, "/stats": `"duplicates":0`, "/health": "ok", "/nope": "Invalid URL",
	} {
		r, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s: %s", path, raw)
		}
	}
	for body, want := range map[string]string{
		`{"prompt":"ab"}`:  "[97,98]",
		`{"content":"ab"}`: "[97,98]",
		`{"messages":[{"role":"user","content":"a"}]}`: `"count":42`,
	} {
		_, raw := post(t, url+"/tokenize", json.RawMessage(body))
		if !strings.Contains(string(raw), want) {
			t.Errorf("tokenize %s: %s", body, raw)
		}
	}
	if _, raw := post(t, url+"/detokenize", obj{"tokens": []int{97, 98}}); !strings.Contains(string(raw), `"ab"`) {
		t.Errorf("detokenize: %s", raw)
	}
}

// tool_choice is obeyed: no calls, at least one, one of a function.
func TestToolChoice(t *testing.T) {
	url, _ := start(t, fakellm.Options{})
	tools := []obj{
		{
			"type":     "function",
			"function": obj{"name": "ls", "parameters": obj{"type": "object", "properties": obj{"path": obj{"type": "string"}}, "required": []string{"path"}}},
		},
		{"type": "function", "function": obj{"name": "pwd"}},
	}
	calling := []obj{{"content": "so", "calls": []obj{{"name": "ls", "arguments": obj{"path": "/"}}}}}
	silent := []obj{{"content": "so"}}
	for _, tt := range []struct {
		choice any
		script []obj
		calls  string
		finish string
	}{
		{"auto", calling, "ls", "tool_calls"},
		{"none", calling, "", "stop"},
		{"required", silent, "ls", "tool_calls"},
		{"required", calling, "ls", "tool_calls"},
		{obj{"type": "function", "function": obj{"name": "pwd"}}, calling, "pwd", "tool_calls"},
	} {
		for _, stream := range []bool{false, true} {
			_, raw := post(t, url+"/v1/chat/completions", obj{
				"model":         "m",
				"messages":      user("hi"),
				"tools":         tools,
				"tool_choice":   tt.choice,
				"hermes_script": tt.script,
				"stream":        stream,
			})
			has := strings.Contains(string(raw), `"tool_calls":[`)
			if has != (tt.calls != "") || has && !strings.Contains(string(raw), `"name":"`+tt.calls+`"`) ||
				!strings.Contains(string(raw), `"finish_reason":"`+tt.finish+`"`) {
				t.Errorf("%v, stream %v: %s", tt.choice, stream, raw)
			}
		}
	}
}

// Completions take a list of prompts, each with its own answers, and say the prompt first
// where that is asked for.
func TestCompletionPrompts(t *testing.T) {
	url, _ := start(t,
		fakellm.Options{Scripts: []fakellm.Script{{Match: "one", Turns: []fakellm.Turn{{Content: "1"}}},
			{Match: "two", Turns: []fakellm.Turn{{Content: "2"}}}}})
	type answer struct {
		Choices []struct {
			Index    int
			Text     string
			IDs      []int32 `json:"token_ids"`
			Logprobs struct {
				Tokens  []string
				Probs   []*float64 `json:"token_logprobs"`
				Offsets []int      `json:"text_offset"`
			}
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	ask := func(body obj) (a answer) {
		t.Helper()
		code, raw := post(t, url+"/v1/completions", body)
		if err := json.Unmarshal(raw, &a); err != nil || code != 200 {
			t.Fatalf("%d %s: %v", code, raw, err)
		}
		return a
	}
	a := ask(obj{"model": "m", "prompt": []string{"one", "two"}, "n": 2, "return_token_ids": true})
	if len(a.Choices) != 4 || a.Choices[1].Text != "1" || a.Choices[2].Text != "2" || a.Choices[3].Index != 3 || a.Usage.Prompt != 6 ||
		a.Usage.Completion != 4*len(a.Choices[0].IDs) {
		t.Errorf("%+v", a)
	}
	a = ask(obj{"model": "m", "prompt": [][]int{{'o', 'n', 'e'}, {'t', 'w', 'o'}}})
	if len(a.Choices) != 2 || a.Choices[1].Text != "2" {
		t.Errorf("lists of ids: %+v", a)
	}
	a = ask(obj{"model": "m", "prompt": "one", "echo": true, "logprobs": 1})
	if l := a.Choices[0].Logprobs; a.Choices[0].Text != "one1" || len(l.Tokens) != 5 || l.Probs[0] != nil || l.Probs[1] == nil ||
		!slices.Equal(l.Offsets, []int{0, 1, 2, 3, 4}) {
		t.Errorf("echoed: %+v", a.Choices[0])
	}
	_, raw := post(t, url+"/v1/completions", obj{"model": "m", "prompt": []string{"one", "two"}, "stream": true, "echo": true})
	for _, want := range []string{`"index":0,"text":"one1`, `"index":1,"text":"two2`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the stream lacks %s: %s", want, raw)
		}
	}
}

// The forms of vLLM and llama.cpp have what the real servers have, and lack what they lack.
func TestRealShapes(t *testing.T) {
	url, s := start(t, fakellm.Options{Like: fakellm.LikeVLLM, Closed: []string{"/completion"}, Default: []fakellm.Turn{{Content: "é日"}}})
	s.SetVersion("step-3")
	_, raw := post(t, url+"/inference/v1/generate", obj{"model": "m", "token_ids": []int{'h', 'i'}, "sampling_params": obj{"logprobs": 1, "max_tokens": 9}})
	for _, want := range []string{
		`{"token_id":195,"logprob":`,
		`"top_logprobs":[{"token_id":195,`,
		`"weight_versions":[{"version":"step-3","start":0,"end":6}]`,
		`"prompt_tokens":2`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("/inference/v1/generate lacks %s: %s", want, raw)
		}
	}
	code, raw := post(t, url+"/completion", obj{"prompt": []int{'h', 'i'}})
	if code != 403 || !strings.HasPrefix(string(raw), `{"error":{"message":"Scale-out endpoints are disabled`) {
		t.Errorf("a closed path: %d %s", code, raw)
	}
	url, _ = start(t, fakellm.Options{Default: []fakellm.Turn{{Content: "é日"}}})
	_, raw = post(t, url+"/completion", obj{"prompt": []int{'h', 'i'}, "n_probs": 1, "return_tokens": true})
	var a struct {
		Tokens []int
		Probs  []struct{ ID int } `json:"completion_probabilities"`
	}
	if err := json.Unmarshal(raw, &a); err != nil || !slices.Equal(a.Tokens, []int{0xc3, 0xa9, 0xe6, 0x97, 0xa5, 256}) || len(a.Probs) != 3 ||
		a.Probs[0].ID != 0xa9 || a.Probs[1].ID != 0xa5 || a.Probs[2].ID != 256 {
		t.Errorf("/completion: %s (%v)", raw, err)
	}
}

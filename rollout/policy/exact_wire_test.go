package policy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// canned answers requests with fixed bodies, the last one again, and keeps the requests.
type canned struct {
	answers []string
	sent    []string
}

// RoundTrip answers one request.
func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.sent = append(c.sent, r.URL.Path+" "+string(raw))
	a := c.answers[min(len(c.sent), len(c.answers))-1]
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a)), ContentLength: int64(len(a)), Request: r}, nil
}

// exactOver opens a sampler whose server gives canned answers.
func exactOver(t testing.TB, form string, c http.RoundTripper, base string, change func(*policy.Parts, *policy.GeneratorOptions)) policy.Sampler {
	t.Helper()
	tmpl, tok := chatML(t, chattemplate.Options{})
	w, err := wire.New(wire.Options{Bases: []string{base}, Transport: c, Retries: 1, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	parts := policy.Parts{Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50}
	o := policy.GeneratorOptions{Model: "m"}
	if change != nil {
		change(&parts, &o)
	}
	o.Capture = parts.Capture
	if parts.Generator, err = policy.NewGenerator(w, form, o); err != nil {
		t.Fatal(err)
	}
	p, err := policy.NewExact(parts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func first(t testing.TB, s policy.Sampler) (trajectory.Turn, error) {
	t.Helper()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), user("go"), nil)
}

// sgl is an answer of SGLang with the tokens of ids.
func sgl(finish, version string, ids ...int) string {
	var lps []string
	for _, id := range ids {
		lps = append(lps, fmt.Sprintf("[-0.25,%d,null]", id))
	}
	list, _ := json.Marshal(ids)
	return fmt.Sprintf(`{"text":"","output_ids":%s,"meta_info":{"finish_reason":%s,"weight_version":%s,"output_token_logprobs":[%s]}}`, list, finish, version, strings.Join(lps, ","))
}

// An answer that is aborted amid new weights goes on behind its tokens; each version is
// noted with its first token, and the limit of tokens counts what was written.
func TestExactVersionsOfAnAbortedAnswer(t *testing.T) {
	c := &canned{answers: []string{sgl(`{"type":"abort","message":"Aborted"}`, `"7"`, 72, 101), sgl(`{"type":"abort"}`, `"7"`, 108), sgl(`{"type":"stop","matched":264}`, `8`, 108, 264)}}
	turn, err := first(t, exactOver(t, "sglang", c, "http://judge.invalid/v1", nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := []trajectory.Token{72, 101, 108, 108, 264}; !slices.Equal(turn.Sampled.Tokens, want) || len(turn.Sampled.LogProbs) != 5 {
		t.Errorf("tokens %v, want %v", turn.Sampled.Tokens, want)
	}
	if want := []trajectory.Span{{From: 0, Version: "7"}, {From: 3, Version: "8"}}; !slices.Equal(turn.Sampled.Versions, want) {
		t.Errorf("versions %v, want %v", turn.Sampled.Versions, want)
	}
	if turn.Sampled.Message.Content() != "Hell" || turn.Finish != trajectory.FinishStop {
		t.Errorf("message %+v, %s", turn.Sampled.Message, turn.Finish)
	}
	for i, limit := range []string{"50}", "48}", "47}"} {
		if !strings.HasPrefix(c.sent[i], "/generate {") || !strings.Contains(c.sent[i], `"max_new_tokens":`+limit) {
			t.Errorf("request %d: %s", i, c.sent[i])
		}
	}
	if !strings.Contains(c.sent[2], ",72,101,108],") {
		t.Errorf("the third request does not end with what was sampled: %s", c.sent[2])
	}
}

func TestSGLangShapes(t *testing.T) {
	good := sgl(`{"type":"stop"}`, `"v"`, 72, 264)
	wrapped, _ := json.Marshal(good)
	twice, _ := json.Marshal(string(wrapped))
	tests := []struct {
		name, answer string
		kind         policy.ErrorKind
		says         string
	}{
		{name: "an object", answer: good},
		{name: "a list of one", answer: "[" + good + "]"},
		{name: "wrapped once", answer: string(wrapped)},
		{name: "wrapped twice", answer: string(twice)},
		{name: "a bare word as the finish", answer: sgl(`"stop"`, `"v"`, 72, 264)},
		{name: "two answers", answer: "[" + good + "," + good + "]", kind: policy.Malformed, says: "2 answers"},
		{name: "no finish", answer: sgl(`null`, `"v"`, 72), kind: policy.Malformed, says: "finish_reason"},
		{name: "null log-prob", answer: strings.Replace(good, "[-0.25,264", "[null,264", 1), kind: policy.Inexact, says: "log-prob 1 is NaN"},
		{name: "positive log-prob", answer: strings.Replace(good, "[-0.25,264", "[0.5,264", 1), kind: policy.Inexact, says: "log-prob 1 is 0.5"},
		{name: "ids differ", answer: strings.Replace(good, "[-0.25,264", "[-0.25,263", 1), kind: policy.Inexact, says: "differ at token 1"},
		{name: "too few log-probs", answer: strings.Replace(good, ",[-0.25,264,null]", "", 1), kind: policy.Inexact, says: "differ at token 1"},
		{name: "id outside", answer: sgl(`{"type":"stop"}`, `"v"`, 72, 99999), kind: policy.Inexact, says: "token 99999 is not in the tokenizer's vocabulary"},
		{name: "negative id", answer: sgl(`{"type":"stop"}`, `"v"`, -5), kind: policy.Malformed, says: "not a token id"},
		{name: "another prompt", answer: strings.Replace(good, `"meta_info":{`, `"meta_info":{"prompt_tokens":3,`, 1), kind: policy.Inexact, says: "counts 3 tokens"},
		{name: "text only", answer: `{"text":"hi","meta_info":{"finish_reason":{"type":"stop"}}}`, kind: policy.Inexact, says: "output_ids"},
		{name: "no log-probs", answer: `{"output_ids":[72],"meta_info":{"finish_reason":{"type":"stop"}}}`, kind: policy.Inexact, says: "return_logprob"},
		{name: "an error under 200", answer: `{"error":{"message":"overloaded"}}`, kind: policy.Limited, says: "overloaded"},
		{name: "an abort that is an error", answer: sgl(`{"type":"abort","message":"input is too long for context length","status_code":400}`, `"v"`), kind: policy.Overlong, says: "too long"},
		{name: "aborted before the first token", answer: sgl(`{"type":"abort"}`, `"v"`), kind: policy.Unavailable, says: "before its first token"},
		{name: "no JSON", answer: "<html>", kind: policy.Malformed, says: "no JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := first(t, exactOver(t, "sglang", &canned{answers: []string{tt.answer}}, "http://judge.invalid/v1", nil))
			var e *policy.Error
			switch {
			case tt.kind == "" && err != nil:
				t.Error(err)
			case tt.kind != "" && (!errors.As(err, &e) || e.Kind != tt.kind || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %v, want %s: %q", err, tt.kind, tt.says)
			}
		})
	}
}

// The requests of every form, as their servers document them.
func TestExactRequests(t *testing.T) {
	temp, seed := 0.5, uint64(9)
	for form, want := range map[string][]string{
		"sglang": {"/gw/generate {", `"return_logprob":true`, `"input_ids":[`, `"sampling_params":{`, `"skip_special_tokens":false`, `"temperature":0.5`,
			`"stop_token_ids":[264]`, `"max_new_tokens":50}}`, `"extra_key":"w1"`},
		"vllm":             {"/gw/inference/v1/generate {", `"model":"m"`, `"token_ids":[`, `"logprobs":0`, `"cache_salt":"w1"`, `"seed":`, `"max_tokens":50,`},
		"vllm-completions": {"/gw/v1/completions {", `"model":"m"`, `"prompt":[`, `"logprobs":0`, `"return_token_ids":true`, `"add_special_tokens":false`, `"stop_token_ids":[264]`},
		"llamacpp":         {"/gw/completion {", `"prompt":[`, `"return_tokens":true`, `"n_probs":1`, `"cache_prompt":true`, `"n_predict":50`},
	} {
		c := &canned{answers: []string{"{}"}}
		tmpl, tok := chatML(t, chattemplate.Options{})
		w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/gw/v1"}, Transport: c, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		salt := "w1"
		if form == "llamacpp" {
			salt = ""
		}
		gen, err := policy.NewGenerator(w, form, policy.GeneratorOptions{Model: "m", Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.NewExact(policy.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Open(nil, policy.Options{Temperature: &temp, Seed: &seed, Extra: json.RawMessage(`{"own":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first(t, s); err == nil {
			t.Errorf("%s: an empty answer is taken", form)
		}
		for _, part := range append(want, `"own":1`) {
			if !strings.Contains(c.sent[0], part) {
				t.Errorf("%s: the request lacks %s: %s", form, part, c.sent[0])
			}
		}
		if _, body, _ := strings.Cut(c.sent[0], " "); !json.Valid([]byte(body)) {
			t.Errorf("%s: no JSON: %s", form, body)
		}
		if _, err := p.Open(nil, policy.Options{Extra: json.RawMessage(`{"stream":true}`)}); err == nil {
			t.Errorf("%s: an extra body may ask for a stream", form)
		}
		w.Close()
	}
}

// vLLM's routed experts are an array in NumPy's format.
func TestVLLMRoutedExperts(t *testing.T) {
	c := &canned{}
	head := "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 2, 3), }"
	capture, err := policy.ParseCapture("routed_experts")
	if err != nil {
		t.Fatal(err)
	}
	s := exactOver(t, "vllm", c, "http://judge.invalid/v1", func(p *policy.Parts, _ *policy.GeneratorOptions) { p.Capture = capture })
	npy := func(rows int) string {
		h := fmt.Sprintf(head, rows)
		h += strings.Repeat(" ", (64-(10+len(h)+1)%64)%64) + "\n"
		b := append([]byte("\x93NUMPY\x01\x00"), byte(len(h)), byte(len(h)>>8))
		return base64.StdEncoding.EncodeToString(append(append(b, h...), bytes.Repeat([]byte{7}, 6*rows)...))
	}
	answer := func(rows int) string {
		return `{"choices":[{"token_ids":[72,264],"finish_reason":"stop","logprobs":{"content":[{"logprob":-1},{"logprob":-2}]},"routed_experts":"` + npy(rows) + `"}]}`
	}
	c.answers = []string{answer(1)}
	if _, err := first(t, s); err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Errorf("an array of one row is taken: %v", err)
	}
	_, body, _ := strings.Cut(c.sent[0], `"token_ids":[`)
	ids, _, _ := strings.Cut(body, "]")
	n := strings.Count(ids, ",") + 1
	c.answers, c.sent = []string{answer(n + 1)}, nil
	turn, err := first(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if x := turn.Sampled.Extras; len(x) != 1 || x[0].Dtype != "uint8" || !slices.Equal(x[0].Shape, []int{n + 1, 2, 3}) || len(x[0].Blob) != 64 {
		t.Errorf("extras %+v", x)
	}
	c.answers, c.sent = []string{strings.Replace(answer(2), "-2", "-9999", 1)}, nil
	if _, err := first(t, s); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("vLLM's missing log-prob is taken: %v", err)
	}
}

// A chat server that tells its ids: appended where its prompt begins with the trace, else
// a fork.
func TestChatIDs(t *testing.T) {
	answer := func(prompt, ids string) string {
		return `{"model":"m","prompt_token_ids":` + prompt + `,"choices":[{"index":0,"finish_reason":"stop","token_ids":` + ids +
			`,"message":{"role":"assistant","content":"hi"},"logprobs":{"content":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-0.25}]}}]}`
	}
	m := serve(t, answer("[1,2,3]", "[4,5]"), answer("[1,2,3,4,5,6,7]", "[8,9]"), answer("[1,2,6]", "[8,9]"), hello)
	w, err := wire.New(wire.Options{Bases: []string{m.URL + "/v1"}, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := policy.NewChatIDs(w, policy.ChatOptions{Model: "m", Extra: json.RawMessage(`{"own":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(p.Info().Mode, nil)
	ask(t, s, tr, user("a"), nil)
	ask(t, s, tr, user("b"), nil)
	if got := tokens(tr); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("tokens %v", got)
	}
	if turn := ask(t, s, tr, user("c"), nil); !turn.Fork || len(turn.Given) != 5 {
		t.Errorf("a rewritten past is no fork: %+v", turn)
	}
	if got := tokens(tr); !slices.Equal(got, []int32{1, 2, 6, 8, 9}) {
		t.Errorf("tokens of the fork %v", got)
	}
	_, err = s.Next(t.Context(), tr.Prefix(), user("d"), nil)
	var e *policy.Error
	if !errors.As(err, &e) || e.Kind != policy.Inexact || !strings.Contains(err.Error(), "return_token_ids") {
		t.Errorf("an answer without ids: %v", err)
	}
	for _, part := range []string{`"logprobs":true`, `"return_token_ids":true`, `"own":1`} {
		if !strings.Contains(m.bodies[0], part) {
			t.Errorf("the request lacks %s: %s", part, m.bodies[0])
		}
	}
	if strings.Contains(m.bodies[0], `"stream":true`) {
		t.Error("the request asks for a stream")
	}
}

// BenchmarkExactTurn is one turn behind a prompt of 12 kB: bridge, tokens, request, answer.
func BenchmarkExactTurn(b *testing.B) {
	tmpl, tok := chatML(b, chattemplate.Options{})
	c := &fixed{}
	w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	gen, err := policy.NewGenerator(w, "sglang", policy.GeneratorOptions{})
	if err != nil {
		b.Fatal(err)
	}
	p, err := policy.NewExact(policy.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 5000})
	if err != nil {
		b.Fatal(err)
	}
	call, err := ids{tok, "<|im_end|>"}.Tokenizer.Encode("<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls -la\"}}\n</tool_call>", tokenizerAll)
	if err != nil {
		b.Fatal(err)
	}
	var list []int
	for _, id := range call {
		list = append(list, int(id))
	}
	end, _ := tok.ID("<|im_end|>")
	c.answer = sgl(`{"type":"stop"}`, `"1"`, append(list, int(end))...)
	s, err := p.Open(ls(), policy.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeExact, ls())
	turn := ask2(b, s, tr, user(strings.Repeat("words and words ", 12<<10/16)))
	head := tr.Head
	b.ReportAllocs()
	for b.Loop() {
		ask2(b, s, tr, result(turn.Sampled.Message, "total 0\ndrwxr-xr-x 2 user user 40 .\n"))
		if err := tr.Rewind(head, trajectory.Abandoned); err != nil {
			b.Fatal(err)
		}
	}
}

func ask2(b *testing.B, s policy.Sampler, tr *trajectory.Trace, pending []trajectory.Message) trajectory.Turn {
	turn, err := s.Next(b.Context(), tr.Prefix(), pending, nil)
	if err == nil {
		_, err = tr.Commit(turn)
	}
	if err != nil {
		b.Fatal(err)
	}
	return turn
}

// fixed answers every request alike.
type fixed struct{ answer string }

// RoundTrip answers one request.
func (f *fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(f.answer)), ContentLength: int64(len(f.answer)), Request: r}, nil
}

// TestPaddingOfTheVocabulary: an id between the tokenizer's and the model's size can be
// sampled; it is a token of the sequence and no text.
func TestPaddingOfTheVocabulary(t *testing.T) {
	turn, err := first(t, exactOver(t, "sglang", &canned{answers: []string{sgl(`{"type":"stop"}`, `"v"`, 72, 99990, 73)}}, "http://judge.invalid/v1",
		func(p *policy.Parts, _ *policy.GeneratorOptions) { p.Vocab = 100_000 }))
	if err != nil || turn.Sampled.Message.Content() != "HI" || len(turn.Sampled.Tokens) != 3 || len(turn.Sampled.LogProbs) != 3 {
		t.Errorf("%+v, %v", turn.Sampled, err)
	}
	_, err = first(t, exactOver(t, "sglang", &canned{answers: []string{sgl(`{"type":"stop"}`, `"v"`, 72, 100_000)}}, "http://judge.invalid/v1",
		func(p *policy.Parts, _ *policy.GeneratorOptions) { p.Vocab = 100_000 }))
	if err == nil {
		t.Error("an id beyond the model's output is accepted")
	}
}

package exact_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// An answer that is aborted amid new weights goes on behind its tokens; each version is
// noted with its first token, and the limit of tokens counts what was written.
func TestExactVersionsOfAnAbortedAnswer(t *testing.T) {
	c := &policytest.Canned{Answers: []string{
		policytest.SGLang(`{"type":"abort","message":"Aborted"}`, `"7"`, 72, 101),
		policytest.SGLang(`{"type":"abort"}`, `"7"`, 108),
		policytest.SGLang(`{"type":"stop","matched":264}`, `8`, 108, 264),
	}}
	turn, err := policytest.First(t, policytest.Exact(t, "sglang", c, "http://judge.invalid/v1", nil))
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
		if !strings.HasPrefix(c.Sent[i], "/generate {") || !strings.Contains(c.Sent[i], `"max_new_tokens":`+limit) {
			t.Errorf("request %d: %s", i, c.Sent[i])
		}
	}
	if !strings.Contains(c.Sent[2], ",72,101,108],") {
		t.Errorf("the third request does not end with what was sampled: %s", c.Sent[2])
	}
}

// The requests of every form, as their servers document them.
func TestExactRequests(t *testing.T) {
	temp, seed := 0.5, uint64(9)
	for form, want := range map[string][]string{
		"sglang": {"/gw/generate {", `"return_logprob":true`, `"input_ids":[`, `"sampling_params":{`, `"skip_special_tokens":false`, `"temperature":0.5`,
			`"stop_token_ids":[264]`, `"max_new_tokens":50}}`, `"extra_key":"w1"`},
		"vllm": {"/gw/inference/v1/generate {", `"model":"m"`, `"token_ids":[`, `"logprobs":0`, `"cache_salt":"w1"`, `"seed":`, `"max_tokens":50,`},
		"vllm-completions": {
			"/gw/v1/completions {", `"model":"m"`, `"prompt":[`, `"logprobs":0`, `"return_token_ids":true`,
			`"add_special_tokens":false`, `"stop_token_ids":[264]`,
		},
		"llamacpp": {"/gw/completion {", `"prompt":[`, `"return_tokens":true`, `"n_probs":1`, `"cache_prompt":true`, `"n_predict":50`},
	} {
		c := &policytest.Canned{Answers: []string{"{}"}}
		tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
		w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/gw/v1"}, Transport: c, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		salt := "w1"
		if form == "llamacpp" {
			salt = ""
		}
		gen, err := servers.New(w, form, servers.Options{Model: "m", Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		p, err := exact.New(exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Open(nil, policy.Options{Temperature: &temp, Seed: &seed, Extra: json.RawMessage(`{"own":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policytest.First(t, s); err == nil {
			t.Errorf("%s: an empty answer is taken", form)
		}
		for _, part := range append(want, `"own":1`) {
			if !strings.Contains(c.Sent[0], part) {
				t.Errorf("%s: the request lacks %s: %s", form, part, c.Sent[0])
			}
		}
		if _, body, _ := strings.Cut(c.Sent[0], " "); !json.Valid([]byte(body)) {
			t.Errorf("%s: no JSON: %s", form, body)
		}
		if _, err := p.Open(nil, policy.Options{Extra: json.RawMessage(`{"stream":true}`)}); err == nil {
			t.Errorf("%s: an extra body may ask for a stream", form)
		}
		w.Close()
	}
}

// BenchmarkExactTurn is one turn behind a prompt of 12 kB: bridge, tokens, request, answer.
func BenchmarkExactTurn(b *testing.B) {
	tmpl, tok := policytest.ChatML(b, chattemplate.Options{})
	c := &policytest.Fixed{}
	w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	gen, err := servers.New(w, "sglang", servers.Options{})
	if err != nil {
		b.Fatal(err)
	}
	p, err := exact.New(exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 5000})
	if err != nil {
		b.Fatal(err)
	}
	call, err := policytest.IDs{
		Tokenizer: tok,
		Last:      "<|im_end|>",
	}.Tokenizer.Encode("<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls -la\"}}\n</tool_call>",
		tokenizerAll)
	if err != nil {
		b.Fatal(err)
	}
	var list []int
	for _, id := range call {
		list = append(list, int(id))
	}
	end, _ := tok.ID("<|im_end|>")
	c.Answer = policytest.SGLang(`{"type":"stop"}`, `"1"`, append(list, int(end))...)
	s, err := p.Open(ls(), policy.Options{})
	if err != nil {
		b.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeExact, ls())
	turn := ask2(b, s, tr, policytest.User(strings.Repeat("words and words ", 12<<10/16)))
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

// TestPaddingOfTheVocabulary: an id between the tokenizer's and the model's size can be
// sampled; it is a token of the sequence and no text.
func TestPaddingOfTheVocabulary(t *testing.T) {
	turn, err := policytest.First(t,
		policytest.Exact(t, "sglang", &policytest.Canned{Answers: []string{policytest.SGLang(`{"type":"stop"}`, `"v"`,
			72, 99990, 73)}}, "http://judge.invalid/v1",
			func(p *exact.Parts, _ *servers.Options) { p.Vocab = 100_000 }))
	if err != nil || turn.Sampled.Message.Content() != "HI" || len(turn.Sampled.Tokens) != 3 || len(turn.Sampled.LogProbs) != 3 {
		t.Errorf("%+v, %v", turn.Sampled, err)
	}
	_, err = policytest.First(t,
		policytest.Exact(t, "sglang", &policytest.Canned{Answers: []string{policytest.SGLang(`{"type":"stop"}`,
			`"v"`, 72, 100_000)}}, "http://judge.invalid/v1",
			func(p *exact.Parts, _ *servers.Options) { p.Vocab = 100_000 }))
	if err == nil {
		t.Error("an id beyond the model's output is accepted")
	}
}

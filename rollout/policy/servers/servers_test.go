package servers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// llama is an answer of llama.cpp: its tokens, and those whose log-probs it tells.
func llama(ids, probed []int, more string) string {
	list, _ := json.Marshal(ids)
	var probs []string
	for _, id := range probed {
		probs = append(probs,
			fmt.Sprintf(`{"id":%d,"token":"x","bytes":[],"logprob":-0.%02d,"top_logprobs":[{"id":%d,"logprob":-0.5},{"id":7,"logprob":-1.5}]}`, id, id%100, id))
	}
	entries := ""
	if probed != nil {
		entries = `,"completion_probabilities":[` + strings.Join(probs, ",") + `]`
	}
	return fmt.Sprintf(`{"index":0,"content":"","tokens":%s,"stop":true,%s%s}`, list, more, entries)
}

// llama.cpp tells no log-prob for the tokens before the last one of a character. They are
// recorded and masked; what is not certain is masked too.
func TestLlamacppTokensWithoutLogProbs(t *testing.T) {
	eos, limit := `"stop_type":"eos"`, `"stop_type":"limit"`
	tests := []struct {
		name        string
		ids, probed []int
		more        string
		masked      []trajectory.Run
		kind        policy.ErrorKind
		says        string
	}{
		{name: "all", ids: []int{72, 105, 264}, probed: []int{72, 105, 264}, more: eos},
		{name: "two of one character", ids: []int{72, 127, 109, 264}, probed: []int{72, 109, 264}, more: eos, masked: []trajectory.Run{{From: 1, To: 2}}},
		{
			name:   "two characters",
			ids:    []int{127, 109, 162, 245, 105, 264},
			probed: []int{109, 105, 264},
			more:   eos,
			masked: []trajectory.Run{{From: 0, To: 1}, {From: 2, To: 4}},
		},
		{name: "cut within a character", ids: []int{72, 162}, probed: []int{72}, more: limit, masked: []trajectory.Run{{From: 1, To: 2}}},
		{name: "nothing but the beginning of a character", ids: []int{162}, more: limit, masked: []trajectory.Run{{From: 0, To: 1}}},
		{
			name:   "the same token twice: it is not known which",
			ids:    []int{72, 159, 159, 264},
			probed: []int{72, 159, 264},
			more:   eos,
			masked: []trajectory.Run{{From: 1, To: 3}},
		},
		{
			name:   "taken away by a stop string",
			ids:    []int{72, 105, 106},
			probed: []int{72, 105},
			more:   `"stop_type":"word"`,
			masked: []trajectory.Run{{From: 2, To: 3}},
		},
		{name: "others", ids: []int{72, 105, 264}, probed: []int{72, 99, 264}, more: eos, kind: policy.Inexact, says: "entry 1 of completion_probabilities"},
		{name: "another order", ids: []int{72, 105, 264}, probed: []int{105, 72, 264}, more: eos, kind: policy.Inexact, says: "entry 1"},
		{name: "too many", ids: []int{72, 264}, probed: []int{72, 264, 264}, more: eos, kind: policy.Inexact, says: "entry 2"},
		{name: "none at all", ids: []int{72, 105, 106, 107, 264}, more: limit, kind: policy.Inexact, says: "5 tokens but 0 log-probs"},
		{name: "none, and an end", ids: []int{72, 264}, more: eos, kind: policy.Inexact, says: "2 tokens but 0 log-probs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := policytest.Exact(t, "llamacpp", &policytest.Canned{Answers: []string{llama(tt.ids, tt.probed,
				tt.more)}}, "http://judge.invalid/v1", func(p *exact.Parts, _ *servers.Options) {
				p.Capture.TopK = 2
			})
			turn, err := policytest.First(t, s)
			if tt.kind != "" {
				if policytest.Kind(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("got %v, want %s: %q", err, tt.kind, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d := turn.Sampled
			if !slices.Equal(d.Masked, tt.masked) || len(d.LogProbs) != len(tt.ids) {
				t.Errorf("masked %v of %d, want %v", d.Masked, len(d.LogProbs), tt.masked)
			}
			for i, id := range tt.ids {
				want := -float32(id%100) / 100
				for _, r := range tt.masked {
					if i >= r.From && i < r.To {
						want = 0
					}
				}
				if d.LogProbs[i] != want {
					t.Errorf("log-prob %d is %v, want %v", i, d.LogProbs[i], want)
				}
			}
			if _, err := trajectory.New(trajectory.ModeExact, nil).Commit(turn); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the trace says of masked tokens is said once in a rollout.
func TestMaskedTokensAreTold(t *testing.T) {
	c := &policytest.Canned{Answers: []string{llama([]int{127, 109, 264}, []int{109, 264}, `"stop_type":"eos"`)}}
	tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
	w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	gen, err := servers.New(w, "llamacpp", servers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := exact.New(exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	s, err := p.Open(nil, policy.Options{Notes: func(n string) { notes = append(notes, n) }})
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeExact, nil)
	for range 2 {
		policytest.Ask(t, s, tr, policytest.User("go"), nil)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "no log-prob for 1 of 3 tokens") {
		t.Errorf("notes %q", notes)
	}
}

// A context that is full while llama.cpp writes is a limit; one that was shifted, or a
// prompt that was cut, is not exact. The tokens that came from its cache are counted.
func TestLlamacppFullContext(t *testing.T) {
	c := &policytest.Canned{Answers: []string{llama([]int{72, 264}, []int{72, 264}, `"stop_type":"eos","tokens_evaluated":1`)}}
	_, err := policytest.First(t, policytest.Exact(t, "llamacpp", c, "http://judge.invalid/v1", nil))
	if err == nil {
		t.Fatal("an answer to another prompt is taken")
	}
	_, list, _ := strings.Cut(c.Sent[0], `"prompt":[`)
	list, _, _ = strings.Cut(list, "]")
	n := strings.Count(list, ",") + 1
	tests := []struct {
		name, more string
		finish     trajectory.Finish
		says       string
	}{
		{
			name:   "full",
			more:   fmt.Sprintf(`"truncated":true,"stop_type":"limit","tokens_evaluated":%d,"tokens_cached":%d,"timings":{"cache_n":5}`, n, n+1),
			finish: trajectory.FinishLength,
		},
		{
			name:   "full, an older server",
			more:   fmt.Sprintf(`"truncated":true,"stop_type":"limit","tokens_evaluated":%d,"timings":{"cache_n":5}`, n),
			finish: trajectory.FinishLength,
		},
		{
			name:   "not full",
			more:   fmt.Sprintf(`"truncated":false,"stop_type":"limit","tokens_evaluated":%d,"timings":{"cache_n":5.0}`, n),
			finish: trajectory.FinishLength,
		},
		{name: "shifted, and ended", more: fmt.Sprintf(`"truncated":true,"stop_type":"eos","tokens_evaluated":%d`, n), says: "--no-context-shift"},
		{
			name: "shifted, and cut",
			more: fmt.Sprintf(`"truncated":true,"stop_type":"limit","tokens_evaluated":%d,"tokens_cached":%d`, n, n/2),
			says: "--no-context-shift",
		},
		{name: "a prompt that was cut", more: fmt.Sprintf(`"truncated":true,"stop_type":"limit","tokens_evaluated":%d`, n/2), says: "tokens in the prompt"},
	}
	for _, tt := range tests {
		turn, err := policytest.First(t,
			policytest.Exact(t, "llamacpp", &policytest.Canned{Answers: []string{llama([]int{72, 105}, []int{72, 105}, tt.more)}},
				"http://judge.invalid/v1", nil))
		switch {
		case tt.says == "" && (err != nil || turn.Finish != tt.finish || turn.Usage.Cached != 5):
			t.Errorf("%s: %s, %+v, %v", tt.name, turn.Finish, turn.Usage, err)
		case tt.says != "" && (policytest.Kind(err) != policy.Inexact || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// versioned is an answer of five tokens in the form of each server.
func versioned(form, spans string) string {
	switch form {
	case "sglang":
		return strings.Replace(policytest.SGLang(`{"type":"stop"}`, `"8"`, 72, 101, 108, 108, 264),
			`"meta_info":{`, `"meta_info":{"weight_versions":`+spans+`,`, 1)
	case "vllm":
		return `{"model":"m","choices":[{"token_ids":[72,101,108,108,264],"finish_reason":"stop","weight_versions":` + spans +
			`,"logprobs":{"content":[{"token_id":72,"logprob":-1},{"token_id":101,"logprob":-1},{"token_id":108,"logprob":-1},{"token_id":108,"logprob":-1},{"token_id":264,"logprob":-1}]}}]}`
	}
	return `{"model":"m","choices":[{"token_ids":[72,101,108,108,264],"finish_reason":"stop","weight_versions":` + spans + `,"logprobs":{"token_logprobs":[-1,-1,-1,-1,-1]}}]}`
}

// Weights that change within an answer are recorded from the token on which they did, and
// count for the limit of staleness.
func TestVersionsWithinAnAnswer(t *testing.T) {
	const both = `[{"version":"v-1","start":0,"end":2},{"version":"v-4","start":2,"end":5}]`
	for _, form := range []string{"sglang", "vllm", "vllm-completions"} {
		open := func(spans string, staleness int) (trajectory.Turn, error) {
			return policytest.First(t,
				policytest.Exact(t, form, &policytest.Canned{Answers: []string{versioned(form,
					spans)}}, "http://judge.invalid/v1", func(p *exact.Parts, _ *servers.Options) {
					p.VersionFrom, p.MaxStaleness = exact.FromServer, staleness
				}))
		}
		want := []trajectory.Span{{From: 0, Version: "v-1"}, {From: 2, Version: "v-4"}}
		for _, spans := range []string{
			both,
			`[["v-1",0,2],["v-4",2,5]]`,
			`[{"version":"v-1","start":0,"end":2},{"version":"v-2","start":2,"end":2},{"version":"v-4","start":2,"end":5}]`,
		} {
			if turn, err := open(spans, 3); err != nil || !slices.Equal(turn.Sampled.Versions, want) {
				t.Errorf("%s, %s: %v, %v", form, spans, turn.Sampled.Versions, err)
			}
		}
		if _, err := open(both, 2); policytest.Kind(err) != policy.Stale || !strings.Contains(err.Error(), "3 versions apart") {
			t.Errorf("%s: three versions apart, two allowed: %v", form, err)
		}
		for _, spans := range []string{
			`[{"version":"7","start":1,"end":5}]`, `[{"version":"7","start":0,"end":4}]`, `[{"version":"7","start":0,"end":6}]`,
			`[{"version":"7"}]`, `{}`, `[7]`,
			`[{"version":"7","start":0,"end":3},{"version":"8","start":2,"end":5}]`,
		} {
			if _, err := open(spans, 0); policytest.Kind(err) != policy.Inexact || !strings.Contains(err.Error(), "weight_versions") {
				t.Errorf("%s: %s is taken: %v", form, spans, err)
			}
		}
		_, err := open(`null`, 0)
		if probed := form == "sglang"; probed != (err == nil) { // it tells the last version beside
			t.Errorf("%s without spans: %v", form, err)
		}
	}
}

// vLLM's own form names tokens by their ids: those of log-probs are compared, the likeliest
// are captured, and the prompt is checked where it comes back.
func TestVLLMTokensOfLogProbs(t *testing.T) {
	answer := func(ids, more string) string {
		return `{` + more + `"choices":[{"index":0,"token_ids":` + ids + `,"finish_reason":"stop","logprobs":{"content":[` +
			`{"token_id":72,"logprob":-0.5,"rank":1,"top_logprobs":[{"token_id":72,"logprob":-0.5,"rank":1},{"token_id":9,"logprob":-2,"rank":2}]},` +
			`{"token_id":264,"logprob":-3,"rank":9,"top_logprobs":[{"token_id":264,"logprob":-3,"rank":9},{"token_id":5,"logprob":-0.25,"rank":1},{"token_id":6,"logprob":-0.75,"rank":2}]}]}}]}`
	}
	open := func(in string) (trajectory.Turn, error) {
		c := &policytest.Canned{Answers: []string{in}}
		s := policytest.Exact(t, "vllm", c, "http://judge.invalid/v1", func(p *exact.Parts, _ *servers.Options) { p.Capture.TopK = 2 })
		return policytest.First(t, s)
	}
	turn, err := open(answer("[72,264]", `"usage":{"prompt_tokens":null,"prompt_tokens_details":{"cached_tokens":3}},`))
	if err != nil || len(turn.Sampled.Extras) != 2 || !slices.Equal(turn.Sampled.Extras[0].Shape, []int{2, 2}) || turn.Usage.Cached != 3 {
		t.Fatalf("%+v, %v", turn, err)
	}
	for name, in := range map[string]string{
		"differ at token 0":                        answer("[73,264]", ""),
		"differ at token 1":                        answer("[72]", ""),
		"the server counts 3 tokens in the prompt": answer("[72,264]", `"usage":{"prompt_tokens":3},`),
		"the server's prompt differs":              answer("[72,264]", `"prompt_token_ids":[1,2,3],`),
		"has no token_id":                          strings.Replace(answer("[72,264]", ""), `{"token_id":9,`, `{"token":"x",`, 1),
	} {
		if _, err := open(in); policytest.Kind(err) != policy.Inexact || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Exact requests name every option that shapes the distribution, so that no default of a
// server samples behind the recorded log-probs.
func TestExactSamplingIsExplicit(t *testing.T) {
	type member struct{ key, value string }
	neutral := map[string][]member{"": {{"temperature", "1"}, {"top_p", "1"}, {"top_k", "-1"}, {"min_p", "0"}, {"repetition_penalty", "1"}}}
	neutral["llamacpp"] = []member{{"temperature", "1"},
		{"top_p", "1"},
		{"top_k", "0"},
		{"min_p", "0"},
		{"repeat_penalty", "1"},
		{"typical_p", "1"},
		{"xtc_probability", "0"},
		{"mirostat", "0"}}
	half := 0.5
	zero := 0
	five := 5
	for _, form := range append(policytest.Forms(), "chat") {
		want := neutral[form]
		if want == nil {
			want = neutral[""]
		}
		for name, o := range map[string]policy.Options{
			"nothing named": {},
			"named":         {Temperature: &half, TopP: &half, TopK: &five, MinP: &half},
			"all tokens":    {TopK: &zero},
			"an extra body": {Extra: json.RawMessage(`{"temperature":0.5}`)},
		} {
			if nested := form == "sglang" || form == "vllm"; nested && o.Extra != nil {
				o.Extra = json.RawMessage(`{"sampling_params":{"temperature":0.5}}`)
			}
			c := &policytest.Canned{Answers: []string{"{}"}}
			w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			var p policy.Policy
			if form == "chat" {
				p, err = chat.NewIDs(w, chat.Options{Model: "m", MaxTokens: 50})
			} else {
				tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
				gen, gerr := servers.New(w, form, servers.Options{Model: "m"})
				if gerr != nil {
					t.Fatal(gerr)
				}
				p, err = exact.New(exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Open(nil, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := policytest.First(t, s); err == nil {
				t.Errorf("%s: an empty answer is taken", form)
			}
			_, body, _ := strings.Cut(c.Sent[0], " ")
			var sent struct {
				Params map[string]json.RawMessage `json:"sampling_params"`
			}
			top := map[string]json.RawMessage{}
			if err := errors.Join(json.Unmarshal([]byte(body), &sent), json.Unmarshal([]byte(body), &top)); err != nil {
				t.Fatal(err)
			}
			if sent.Params == nil {
				sent.Params = top
			}
			for _, m := range want {
				value := m.value
				switch {
				case name == "named" && m.key == "top_k":
					value = "5"
				case name == "named" && slices.Contains([]string{"temperature", "top_p", "min_p"}, m.key), name == "an extra body" && m.key == "temperature":
					value = "0.5"
				case name == "all tokens" && m.key == "top_k" && form == "chat":
					value = "0"
				}
				if got := string(sent.Params[m.key]); got != value {
					t.Errorf("%s, %s: %s is sent as %q, want %s", form, name, m.key, got, value)
				}
			}
			w.Close()
		}
	}
}

func TestSGLangShapes(t *testing.T) {
	good := policytest.SGLang(`{"type":"stop"}`, `"v"`, 72, 264)
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
		{name: "a bare word as the finish", answer: policytest.SGLang(`"stop"`, `"v"`, 72, 264)},
		{name: "two answers", answer: "[" + good + "," + good + "]", kind: policy.Malformed, says: "2 answers"},
		{name: "no finish", answer: policytest.SGLang(`null`, `"v"`, 72), kind: policy.Malformed, says: "finish_reason"},
		{name: "null log-prob", answer: strings.Replace(good, "[-0.25,264", "[null,264", 1), kind: policy.Inexact, says: "log-prob 1 is NaN"},
		{name: "positive log-prob", answer: strings.Replace(good, "[-0.25,264", "[0.5,264", 1), kind: policy.Inexact, says: "log-prob 1 is 0.5"},
		{name: "ids differ", answer: strings.Replace(good, "[-0.25,264", "[-0.25,263", 1), kind: policy.Inexact, says: "differ at token 1"},
		{name: "too few log-probs", answer: strings.Replace(good, ",[-0.25,264,null]", "", 1), kind: policy.Inexact, says: "differ at token 1"},
		{
			name:   "id outside",
			answer: policytest.SGLang(`{"type":"stop"}`, `"v"`, 72, 99999),
			kind:   policy.Inexact,
			says:   "token 99999 is not in the tokenizer's vocabulary",
		},
		{name: "negative id", answer: policytest.SGLang(`{"type":"stop"}`, `"v"`, -5), kind: policy.Malformed, says: "not a token id"},
		{
			name:   "another prompt",
			answer: strings.Replace(good, `"meta_info":{`, `"meta_info":{"prompt_tokens":3,`, 1),
			kind:   policy.Inexact,
			says:   "counts 3 tokens",
		},
		{name: "text only", answer: `{"text":"hi","meta_info":{"finish_reason":{"type":"stop"}}}`, kind: policy.Inexact, says: "output_ids"},
		{name: "no log-probs", answer: `{"output_ids":[72],"meta_info":{"finish_reason":{"type":"stop"}}}`, kind: policy.Inexact, says: "return_logprob"},
		{name: "an error under 200", answer: `{"error":{"message":"overloaded"}}`, kind: policy.Limited, says: "overloaded"},
		{
			name:   "an abort that is an error",
			answer: policytest.SGLang(`{"type":"abort","message":"input is too long for context length","status_code":400}`, `"v"`),
			kind:   policy.Overlong,
			says:   "too long",
		},
		{
			name:   "aborted before the first token",
			answer: policytest.SGLang(`{"type":"abort"}`, `"v"`),
			kind:   policy.Unavailable,
			says:   "before its first token",
		},
		{name: "no JSON", answer: "<html>", kind: policy.Malformed, says: "no JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policytest.First(t, policytest.Exact(t, "sglang", &policytest.Canned{Answers: []string{tt.answer}}, "http://judge.invalid/v1", nil))
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

// vLLM's routed experts are an array in NumPy's format.
func TestVLLMRoutedExperts(t *testing.T) {
	c := &policytest.Canned{}
	head := "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 2, 3), }"
	capture, err := servers.ParseCapture("routed_experts")
	if err != nil {
		t.Fatal(err)
	}
	s := policytest.Exact(t, "vllm", c, "http://judge.invalid/v1", func(p *exact.Parts, _ *servers.Options) { p.Capture = capture })
	npy := func(rows int) string {
		h := fmt.Sprintf(head, rows)
		h += strings.Repeat(" ", (64-(10+len(h)+1)%64)%64) + "\n"
		b := append([]byte("\x93NUMPY\x01\x00"), byte(len(h)), byte(len(h)>>8))
		return base64.StdEncoding.EncodeToString(append(append(b, h...), bytes.Repeat([]byte{7}, 6*rows)...))
	}
	answer := func(rows int) string {
		return `{"choices":[{"token_ids":[72,264],"finish_reason":"stop","logprobs":{"content":[{"logprob":-1},{"logprob":-2}]},"routed_experts":"` + npy(rows) + `"}]}`
	}
	c.Answers = []string{answer(1)}
	if _, err := policytest.First(t, s); err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Errorf("an array of one row is taken: %v", err)
	}
	_, body, _ := strings.Cut(c.Sent[0], `"token_ids":[`)
	ids, _, _ := strings.Cut(body, "]")
	n := strings.Count(ids, ",") + 1
	c.Answers, c.Sent = []string{answer(n + 1)}, nil
	turn, err := policytest.First(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if x := turn.Sampled.Extras; len(x) != 1 || x[0].Dtype != "uint8" || !slices.Equal(x[0].Shape, []int{n + 1, 2, 3}) || len(x[0].Blob) != 64 {
		t.Errorf("extras %+v", x)
	}
	c.Answers, c.Sent = []string{strings.Replace(answer(2), "-2", "-9999", 1)}, nil
	if _, err := policytest.First(t, s); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("vLLM's missing log-prob is taken: %v", err)
	}
}

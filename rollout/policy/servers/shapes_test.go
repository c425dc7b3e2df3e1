package servers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// exactly reads one answer of a wire of tokens, twice where it was aborted.
func exactly(t *testing.T, form string, top int, answers ...string) (trajectory.Turn, error) {
	t.Helper()
	return policytest.First(t,
		policytest.Exact(t, form, &policytest.Canned{Answers: answers}, "http://judge.invalid/v1", func(p *exact.Parts, _ *servers.Options) {
			p.Capture.TopK = top
		}))
}

// outcome spells what an exact answer gave.
func outcome(turn trajectory.Turn, err error) string {
	if err != nil {
		return "ERR"
	}
	raw, _ := json.Marshal([]any{turn.Sampled.Tokens, turn.Sampled.LogProbs, turn.Finish})
	return string(raw)
}

// Answers of the wires of tokens in odd shapes.
func TestExactAnswersInOddShapes(t *testing.T) {
	const good, stop = `[[72,264],[-0.25,-0.5],"stop"]`, `"stop"`
	vllm := func(ids, lps, fin, more string) string {
		return `{"choices":[{"index":0,"token_ids":` + ids + `,"finish_reason":` + fin + `,"logprobs":` + lps + more + `}]}`
	}
	lps := `{"content":[{"token":"H","logprob":-0.25},{"token":"x","logprob":-0.5}]}`
	named := func(a, b string) string {
		return `{"content":[{"token":"` + a + `","logprob":-0.25},{"token":"` + b + `","logprob":-0.5}]}`
	}
	comp := func(tokens, list string) string {
		return `{"token_logprobs":` + list + `,"tokens":` + tokens + `,"top_logprobs":null}`
	}
	sgl := func(fin, ids, triples, more string) string {
		return `{"output_ids":` + ids + `,"meta_info":{"finish_reason":` + fin + `,"output_token_logprobs":` + triples + more + `}}`
	}
	st, two := `{"type":"stop"}`, `[[-0.25,72,null],[-0.5,264,null]]`
	lla := func(ids, probs, more string) string {
		return `{"tokens":` + ids + `,"completion_probabilities":` + probs + more + `}`
	}
	eos, pr := `,"stop_type":"eos"`, `[{"id":72,"logprob":-0.25},{"id":264,"logprob":-0.5}]`
	chunk := func(s string) string { return "data: " + s + "\n\ndata: [DONE]\n\n" }
	for _, x := range [][4]string{
		{"vllm", "plain", vllm("[72,264]", lps, stop, ""), good},
		{"vllm", "spelled ids", vllm("[72,264]", named("token_id:72", "token_id:264"), stop, ""), good},
		{"vllm", "spelled ids of others", vllm("[72,264]", named("token_id:73", "token_id:264"), stop, ""), "ERR"},
		{"vllm", "spelled ids turned", vllm("[72,264]", named("token_id:264", "token_id:72"), stop, ""), "ERR"},
		{"vllm", "finish object", vllm("[72,264]", lps, `{"type":"stop"}`, ""), good},
		{"vllm", "finish enum", vllm("[72,264]", lps, `"FINISH_REASON_STOP"`, ""), good},
		{"vllm", "finish null", vllm("[72,264]", lps, `null`, ""), "ERR"},
		{"vllm", "finish empty", vllm("[72,264]", lps, `""`, ""), "ERR"},
		{"vllm", "finish unknown", vllm("[72,264]", lps, `"nova"`, ""), "ERR"},
		{"vllm", "finish error", vllm("[72,264]", lps, `"error"`, ""), "ERR"},
		{"vllm", "logprobs null", vllm("[72,264]", `null`, stop, ""), "ERR"},
		{"vllm", "logprobs []", vllm("[72,264]", `[]`, stop, ""), "ERR"},
		{"vllm", "logprobs short", vllm("[72,264]", `{"content":[{"logprob":-0.25}]}`, stop, ""), "ERR"},
		{"vllm", "logprobs long", vllm("[72]", lps, stop, ""), "ERR"},
		{"vllm", "logprob null", vllm("[72,264]", `{"content":[{"logprob":-0.25},{"logprob":null}]}`, stop, ""), "ERR"},
		{"vllm", "logprob missing", vllm("[72,264]", `{"content":[{"logprob":-0.25},{}]}`, stop, ""), "ERR"},
		{"vllm", "entry null", vllm("[72,264]", `{"content":[{"logprob":-0.25},null]}`, stop, ""), "ERR"},
		{"vllm", "logprob -9999", vllm("[72,264]", `{"content":[{"logprob":-0.25},{"logprob":-9999.0}]}`, stop, ""), "ERR"},
		{"vllm", "logprob -inf", vllm("[72,264]", `{"content":[{"logprob":-0.25},{"logprob":-Infinity}]}`, stop, ""), "ERR"},
		{"vllm", "logprob lowest", vllm("[72,264]", `{"content":[{"logprob":-0.25},{"logprob":-3.4e38}]}`, stop, ""), "ERR"},
		{"vllm", "logprob huge", vllm("[72,264]", `{"content":[{"logprob":-0.25},{"logprob":-1e300}]}`, stop, ""), "ERR"},
		{"vllm", "logprob above 0", vllm("[72,264]", `{"content":[{"logprob":0.25},{"logprob":-0.5}]}`, stop, ""), "ERR"},
		{"vllm", "ids null", vllm("null", lps, stop, ""), "ERR"},
		{"vllm", "ids empty", vllm("[]", `{"content":[]}`, stop, ""), "ERR"},
		{"vllm", "ids floats", vllm("[72.0,264.0]", lps, stop, ""), good + "|ERR"},
		{"vllm", "ids text", vllm(`["72","264"]`, lps, stop, ""), good + "|ERR"},
		{"vllm", "ids null within", vllm("[72,null]", lps, stop, ""), "ERR"},
		{"vllm", "only an end", vllm("[264]", `{"content":[{"logprob":-0.5}]}`, stop, ""), `[[264],[-0.5],"stop"]`},
		{"vllm", "two choices", `{"choices":[{"token_ids":[72],"finish_reason":"stop"},{"token_ids":[73],"finish_reason":"stop"}]}`, "ERR"},
		{"vllm", "choices null", `{"choices":null}`, "ERR"},
		{"vllm", "a stream", chunk(vllm("[72,264]", lps, stop, "")), good + "|ERR"},
		{"vllm", "another prompt", vllm("[72,264]", lps, stop, `,"prompt_token_ids":[1]`), "ERR"},
		{"vllm", "empty prompt", vllm("[72,264]", lps, stop, `,"prompt_token_ids":[]`), "ERR"},
		{"vllm", "usage text", strings.TrimSuffix(vllm("[72,264]", lps, stop, ""), "}") + `,"usage":"none"}`, good},
		{"vllm", "usage float", strings.TrimSuffix(vllm("[72,264]", lps, stop, ""), "}") + `,"usage":{"prompt_tokens":1.0}}`, "ERR"},
		{"vllm", "model null", strings.TrimSuffix(vllm("[72,264]", lps, stop, ""), "}") + `,"model":null}`, good},
		{"vllm", "versions {}", vllm("[72,264]", lps, stop, `,"weight_versions":{}`), "ERR"},
		{"vllm", "versions short", vllm("[72,264]", lps, stop, `,"weight_versions":[{"version":"1","start":0,"end":1}]`), "ERR"},
		{"vllm-completions", "plain", vllm("[72,264]", comp(`["H","x"]`, `[-0.25,-0.5]`), stop, ""), good},
		{"vllm-completions", "spelled ids", vllm("[72,264]", comp(`["token_id:72","token_id:264"]`, `[-0.25,-0.5]`), stop, ""), good},
		{"vllm-completions", "spelled others", vllm("[72,264]", comp(`["token_id:72","token_id:9"]`, `[-0.25,-0.5]`), stop, ""), "ERR"},
		{"vllm-completions", "more spelled", vllm("[72,264]", comp(`["token_id:72","token_id:264","token_id:9"]`, `[-0.25,-0.5]`), stop, ""), "ERR"},
		{"vllm-completions", "null first", vllm("[72,264]", comp(`null`, `[null,-0.5]`), stop, ""), "ERR"},
		{"vllm-completions", "-9999", vllm("[72,264]", comp(`null`, `[-9999,-0.5]`), stop, ""), "ERR"},
		{"vllm-completions", "short", vllm("[72,264]", comp(`null`, `[-0.25]`), stop, ""), "ERR"},
		{"vllm-completions", "long", vllm("[72]", comp(`null`, `[-0.25,-0.5]`), stop, ""), "ERR"},
		{"vllm-completions", "finish object", vllm("[72,264]", comp(`null`, `[-0.25,-0.5]`), `{"type":"stop","matched":264}`, ""), good},
		{"vllm-completions", "no ids", `{"choices":[{"text":"Hi","finish_reason":"stop"}]}`, "ERR"},
		{"vllm-completions", "chat form of log-probs", vllm("[72,264]", lps, stop, ""), good + "|ERR"},
		{"sglang", "plain", sgl(st, "[72,264]", two, ""), good},
		{"sglang", "no ids", `{"meta_info":{"finish_reason":{"type":"stop"},"output_token_logprobs":` + two + `}}`, good},
		{"sglang", "counts as floats", sgl(st, "[72,264]", two, `,"cached_tokens":3.0`), good},
		{"sglang", "counts as text", sgl(st, "[72,264]", two, `,"cached_tokens":"3"`), good},
		{"sglang", "counts null", sgl(st, "[72,264]", two, `,"cached_tokens":null,"prompt_tokens":null`), good},
		{"sglang", "prompt as a float", sgl(st, "[72,264]", two, `,"prompt_tokens":3.0`), "ERR"},
		{"sglang", "prompt 0", sgl(st, "[72,264]", two, `,"prompt_tokens":0`), "ERR"},
		{"sglang", "no meta_info", `{"output_ids":[72,264]}`, "ERR"},
		{"sglang", "meta_info null", `{"output_ids":[72,264],"meta_info":null}`, "ERR"},
		{"sglang", "finish word", sgl(stop, "[72,264]", two, ""), good},
		{"sglang", "finish with message first", sgl(`{"message":"x","type":"stop"}`, "[72,264]", two, ""), good},
		{"sglang", "finish {}", sgl(`{}`, "[72,264]", two, ""), "ERR"},
		{"sglang", "finish status text", sgl(`{"type":"stop","status_code":"200"}`, "[72,264]", two, ""), good + "|ERR"},
		{"sglang", "longer ids", sgl(st, "[72,105,264]", two, ""), "ERR"},
		{"sglang", "shorter ids", sgl(st, "[72]", two, ""), "ERR"},
		{"sglang", "no texts", sgl(st, "[72,264]", "[[-0.25,72],[-0.5,264]]", ""), good},
		{"sglang", "texts with brackets", sgl(st, "[72,264]", `[[-0.25,72,"],["],[-0.5,264,"\"]"]]`, ""), good},
		{"sglang", "-Infinity", sgl(st, "[72,264]", "[[-Infinity,72,null],[-0.5,264,null]]", ""), "ERR"},
		{"sglang", "null", sgl(st, "[72,264]", "[[null,72,null],[-0.5,264,null]]", ""), "ERR"},
		{"sglang", "empty", sgl(st, "[]", "[]", ""), "ERR"},
		{"sglang", "a stream", chunk(sgl(st, "[72,264]", two, "")), good + "|ERR"},
		{"llamacpp", "plain", lla("[72,264]", pr, eos), good},
		{"llamacpp", "stop_type object", lla("[72,264]", pr, `,"stop_type":{"type":"eos"}`), good + "|ERR"},
		{"llamacpp", "stop_type none", lla("[72,264]", pr, `,"stop_type":"none"`), "ERR"},
		{"llamacpp", "stop_type missing", lla("[72,264]", pr, ``), "ERR"},
		{"llamacpp", "log-prob null", lla("[72,264]", `[{"id":72,"logprob":null},{"id":264,"logprob":-0.5}]`, eos), "ERR"},
		{"llamacpp", "log-prob lowest", lla("[72,264]", `[{"id":72,"logprob":-3.4028234663852886e+38},{"id":264,"logprob":-0.5}]`, eos), "ERR"},
		{"llamacpp", "probabilities instead", lla("[72,264]", `[{"id":72,"prob":0.5},{"id":264,"prob":0.5}]`, eos), "ERR"},
		{"llamacpp", "the old form", lla("[72,264]", `[{"content":"H","probs":[{"tok_str":"H","prob":0.5}]},{"content":"","probs":[]}]`, eos), "ERR"},
		{"llamacpp", "the old form, id 0", lla("[0,0]", `[{"content":"H","probs":[]},{"content":"","probs":[]}]`, eos), "ERR"},
		{"llamacpp", "no entries", lla("[72,264]", `[]`, eos), "ERR"},
		{"llamacpp", "entries null", lla("[72,264]", `null`, eos), "ERR"},
		{"llamacpp", "tokens empty", lla("[]", `[]`, eos), "ERR"},
		{"llamacpp", "tokens null", lla("null", pr, eos), "ERR"},
		{"llamacpp", "evaluated 0", lla("[72,264]", pr, eos+`,"tokens_evaluated":0`), "ERR"},
		{"llamacpp", "evaluated null", lla("[72,264]", pr, eos+`,"tokens_evaluated":null`), good},
		{"llamacpp", "evaluated a float", lla("[72,264]", pr, eos+`,"tokens_evaluated":1.0`), "ERR"},
		{"llamacpp", "held a float", lla("[72,264]", pr, eos+`,"tokens_cached":7.0`), good},
		{"llamacpp", "timings null", lla("[72,264]", pr, eos+`,"timings":null`), good},
		{"llamacpp", "truncated", lla("[72,264]", pr, eos+`,"truncated":true`), "ERR"},
		{"llamacpp", "truncated as 0", lla("[72,264]", pr, eos+`,"truncated":0`), good + "|ERR"},
		{"llamacpp", "a list of one", "[" + lla("[72,264]", pr, eos) + "]", good + "|ERR"},
		{"llamacpp", "a stream", chunk(lla("[72,264]", pr, eos)), good + "|ERR"},
		{
			"llamacpp",
			"first of a stream",
			"data: " + lla("[72]", `[{"id":72,"logprob":-0.25}]`, `,"stop":false`) + "\n\n" + chunk(lla("[]", "[]", eos)),
			good + "|ERR",
		},
		{"llamacpp", "no more than a piece", lla("[72]", `[{"id":72,"logprob":-0.25}]`, `,"stop":false`), "ERR"},
		{"llamacpp", "error", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "ERR"},
		{"llamacpp", "error text", `{"error":"boom"}`, "ERR"},
	} {
		got := outcome(exactly(t, x[0], 0, x[2]))
		ok := false
		for w := range strings.SplitSeq(x[3], "|") {
			ok = ok || w == got
		}
		if !ok {
			_, err := exactly(t, x[0], 0, x[2])
			t.Errorf("%s, %s: %s; want %s; %v", x[0], x[1], got, x[3], err)
		}
	}
	// Aborted twice, with and without a piece between.
	ab := `{"type":"abort"}`
	one := func(fin, id string) string { return sgl(fin, "["+id+"]", "[[-0.25,"+id+",null]]", "") }
	for name, list := range map[string][]string{
		"twice":                 {one(ab, "72"), one(ab, "73"), one(st, "264")},
		"with nothing between":  {one(ab, "72"), one(ab, "73"), sgl(ab, "[]", "[]", ""), one(st, "264")},
		"with null ids between": {one(ab, "72"), one(ab, "73"), sgl(ab, "null", "null", ""), one(st, "264")},
	} {
		if got := outcome(exactly(t, "sglang", 0, list...)); got != `[[72,73,264],[-0.25,-0.25,-0.25],"stop"]` {
			t.Errorf("aborted %s: %s", name, got)
		}
	}
	// A chat server that tells its ids.
	ids := func(prompt, ids, lps, more string) string {
		return `{"prompt_token_ids":` + prompt + `,"choices":[{"index":0,"finish_reason":"stop","token_ids":` + ids + `,"message":{"content":"hi"},"logprobs":` + lps + `}]` + more + `}`
	}
	const fine = `[[72,264],[-0.25,-0.5],"stop"]`
	for _, x := range [][3]string{
		{"plain", ids("[1,2]", "[72,264]", lps, ""), fine},
		{"no prompt", ids("null", "[72,264]", lps, ""), "ERR"},
		{"an empty prompt", ids("[]", "[72,264]", lps, ""), "ERR"},
		{"another count of the prompt", ids("[1,2]", "[72,264]", lps, `,"usage":{"prompt_tokens":7,"completion_tokens":2}`), "ERR"},
		{"spelled ids", ids("[1,2]", "[72,264]", named("token_id:72", "token_id:264"), ""), fine},
		{"spelled others", ids("[1,2]", "[72,264]", named("token_id:264", "token_id:72"), ""), "ERR"},
		{"short", ids("[1,2]", "[72,264]", `{"content":[{"logprob":-0.25}]}`, ""), "ERR"},
		{"none", ids("[1,2]", "[72,264]", `null`, ""), "ERR"},
		{"no ids", ids("[1,2]", "null", lps, ""), "ERR"},
		{"empty ids", ids("[1,2]", "[]", `{"content":[]}`, ""), "ERR"},
	} {
		s := policytest.ChatIDs(t, wire.Options{Bases: []string{policytest.Serve(t, x[1]).URL + "/v1"}, Retries: -1})
		turn, err := s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), policytest.User("x"), nil)
		if got := outcome(turn, err); got != x[2] {
			t.Errorf("chat, %s: %s, want %s; %v", x[0], got, x[2], err)
		}
	}
}

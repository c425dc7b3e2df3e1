package fakellm

import (
	"fmt"
	"net/http"
	"strings"

	"hermes/internal/fakellm/model"
	"hermes/internal/fakellm/rawjson"
)

// The kinds of servers whose ways a [Server] can take on. The shapes are those of the
// servers' chat endpoints as of 2025.
const (
	LikeOpenAI     = "openai"
	LikeOpenRouter = "openrouter"
	LikeVLLM       = "vllm"
	LikeSGLang     = "sglang"
	LikeLlamaCPP   = "llamacpp"
	LikeOllama     = "ollama"
	LikeAnthropic  = "anthropic" // Anthropic's own OpenAI-compatible endpoint
)

// LikeNames lists them.
func LikeNames() []string {
	return []string{LikeOpenAI, LikeOpenRouter, LikeVLLM, LikeSGLang, LikeLlamaCPP, LikeOllama, LikeAnthropic}
}

// ways are how servers differ. The zero value is a plain server that shows reasoning.
type ways struct {
	owner     string // owned_by in the list of models
	reasoning string // the field of reasoning; "-": it is not shown, "<think>": in the content
	details   bool   // reasoning_details beside it, with a signature
	object    bool   // arguments are an object, not text
	noIDs     bool   // calls have no id
	atOnce    bool   // a streamed call comes in one piece, always with index 0
	stops     bool   // finish_reason is "stop" though there are calls
	empty     bool   // content is "" beside calls, not null; else null also where nothing is said
	comments  bool   // comment lines while the model works
	usage     func(x *exchange, b []byte) []byte
	always    bool // a stream tells the usage unasked, beside a choice
	cached    bool // usage tells cached tokens
	fail      func(status int, kind, code, message string) string
	overlong  func(limit, prompt, want int) (status int, kind, code, message string)
	noMax     bool // max_tokens is refused
	metrics   [2]string
}

func waysOf(like string) (ways, error) {
	switch like {
	case "":
		return ways{owner: "hermes", reasoning: "reasoning_content", metrics: [2]string{"vllm:num_requests_running", "vllm:num_requests_waiting"}}, nil
	case LikeOpenAI:
		return ways{owner: "system", reasoning: "-", cached: true, noMax: true}, nil
	case LikeOpenRouter:
		return ways{owner: "", reasoning: "reasoning", details: true, empty: true, comments: true, always: true, cached: true,
			usage: openRouterUsage, fail: openRouterError, overlong: openRouterOverlong}, nil
	case LikeVLLM:
		return ways{owner: "vllm", reasoning: "reasoning_content", fail: vllmError, overlong: vllmOverlong,
			metrics: [2]string{"vllm:num_requests_running", "vllm:num_requests_waiting"}}, nil
	case LikeSGLang:
		return ways{owner: "sglang", reasoning: "reasoning_content", fail: flatError, overlong: sglangOverlong,
			metrics: [2]string{"sglang:num_running_reqs", "sglang:num_queue_reqs"}}, nil
	case LikeLlamaCPP:
		return ways{owner: "llamacpp", reasoning: "reasoning_content", fail: llamaError, overlong: llamaOverlong,
			metrics: [2]string{"llamacpp:requests_processing", "llamacpp:requests_deferred"}}, nil
	case LikeOllama:
		return ways{owner: "library", reasoning: "reasoning", object: true, noIDs: true, atOnce: true, stops: true, empty: true,
			fail: ollamaError, overlong: ollamaOverlong}, nil
	case LikeAnthropic:
		return ways{owner: "anthropic", reasoning: "<think>", empty: true, fail: anthropicError, overlong: anthropicOverlong}, nil
	}
	return ways{}, fmt.Errorf("server like %q: have %s", like, strings.Join(LikeNames(), ", "))
}

// fail answers with an error as the server words it.
func (s *Server) fail(w http.ResponseWriter, status int, kind, code, message string) {
	if s.ways.fail == nil {
		fail(w, status, kind, code, message)
		return
	}
	send(w, status, []byte(s.ways.fail(status, kind, code, message)))
}

func jsonText(s string) string { return string(rawjson.Quote(nil, s)) }

// vllmError is that of vLLM since 0.10.
func vllmError(status int, _, _, message string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":%d}}`, jsonText(message), errorName(status), status)
}

// errorName is what vLLM and SGLang call an error of a status.
func errorName(status int) string {
	name := map[int]string{400: "BadRequestError", 401: "Unauthorized", 403: "Forbidden", 404: "NotFoundError", 429: "TooManyRequests", 503: "ServiceUnavailable"}[status]
	if name == "" {
		return "InternalServerError"
	}
	return name
}

// flatError is that of SGLang.
func flatError(status int, _, _, message string) string {
	return fmt.Sprintf(`{"object":"error","message":%s,"type":%q,"param":null,"code":%d}`, jsonText(message), errorName(status), status)
}

func openRouterError(status int, _, _, message string) string {
	if status == 429 {
		return fmt.Sprintf(`{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":%s,"provider_name":"Fake"}},"user_id":"u"}`, jsonText(message))
	}
	return fmt.Sprintf(`{"error":{"message":%s,"code":%d},"user_id":"u"}`, jsonText(message), status)
}

func llamaError(status int, kind, code, message string) string {
	if code == "exceed_context_size_error" {
		kind = code
	} else if status == 503 {
		kind = "unavailable_error"
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"type":%q}}`, status, jsonText(message), kind)
}

func ollamaError(status int, _, _, message string) string {
	kind := "api_error"
	if status == 404 {
		kind, message = "not_found_error", `model "x" not found, try pulling it first`
	}
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":null}}`, jsonText(message), kind)
}

func anthropicError(status int, kind, _, message string) string {
	switch status {
	case 429:
		kind = "rate_limit_error"
	case 404:
		kind = "not_found_error"
	case 503:
		kind, message = "overloaded_error", "Overloaded"
	}
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s}}`, kind, jsonText(message))
}

func openRouterOverlong(limit, prompt, want int) (int, string, string, string) {
	return 400, "", "", fmt.Sprintf("This endpoint's maximum context length is %d tokens. However, you requested about %d tokens (%d of text input, %d in the output). "+
		"Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", limit, prompt+want, prompt, want)
}

func vllmOverlong(limit, prompt, want int) (int, string, string, string) {
	if want > 0 {
		return 400, "", "", fmt.Sprintf("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens (%d > %d - %d).",
			want, limit, prompt, want, limit, prompt)
	}
	return 400, "", "", fmt.Sprintf("The decoder prompt (length %d) is longer than the maximum model length of %d. Make sure that `max_model_len` is no smaller than the number of text tokens.", prompt, limit)
}

func sglangOverlong(limit, prompt, want int) (int, string, string, string) {
	if want > 0 {
		return 400, "", "", fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion.",
			limit, prompt+want, prompt, want)
	}
	return 400, "", "", fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, limit)
}

func llamaOverlong(limit, prompt, _ int) (int, string, string, string) {
	return 400, "", "exceed_context_size_error", fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", prompt, limit)
}

func ollamaOverlong(limit, prompt, _ int) (int, string, string, string) {
	return 400, "", "", fmt.Sprintf("input length (%d tokens) exceeds the model's maximum context length (%d tokens)", prompt, limit)
}

func anthropicOverlong(limit, prompt, _ int) (int, string, string, string) {
	return 400, "invalid_request_error", "", fmt.Sprintf("prompt is too long: %d tokens > %d maximum", prompt, limit)
}

// openRouterUsage tells what the request cost, at a tenth of a cent for a thousand tokens.
func openRouterUsage(x *exchange, b []byte) []byte {
	cost := float64(x.a.Prompt+x.a.Out*x.q.n) * 1e-6
	b = appendFloat(append(b, `,"cost":`...), cost)
	return append(b, `,"is_byok":false,"cost_details":{"upstream_inference_cost":null}`...)
}

// shown is the reasoning and the content as this server shows them.
func (x *exchange) shown() (field, reasoning, content string) {
	w := x.s.ways
	if x.q.form != formChat || x.a.Reasoning == "" {
		return w.reasoning, x.a.Reasoning, x.a.Content
	}
	switch w.reasoning {
	case "-":
		return "", "", x.a.Content
	case "<think>":
		return "", "", "<think>\n" + x.a.Reasoning + "\n</think>\n\n" + x.a.Content
	}
	return w.reasoning, x.a.Reasoning, x.a.Content
}

// call appends one call: whole, with its arguments.
func (x *exchange) call(b []byte, c model.AnswerCall) []byte {
	if !x.s.ways.noIDs {
		b = append(rawjson.Quote(append(b, `"id":`...), c.ID), ',')
	}
	b = rawjson.Quote(append(b, `"type":"function","function":{"name":`...), c.Name)
	b = append(b, `,"arguments":`...)
	if x.s.ways.object && strings.HasPrefix(c.Args, "{") {
		b = append(b, c.Args...)
	} else {
		b = rawjson.Quote(b, c.Args)
	}
	return append(b, '}')
}

// reasoningDetails appends OpenRouter's list of reasoning, signed.
func (x *exchange) reasoningDetails(b []byte, text string, signed bool) []byte {
	b = rawjson.Quote(append(b, `"reasoning_details":[{"type":"reasoning.text","index":0,"format":"anthropic-claude-v1","text":`...), text)
	if signed {
		b = rawjson.Quote(append(b, `,"signature":`...), "sig-"+x.dig.String()[:8])
	}
	return append(b, "}]"...)
}

// refusesMax says that this server wants max_completion_tokens, as OpenAI's reasoning models do.
func (s *Server) refusesMax(q *request) bool { return s.ways.noMax && q.oldMax }

// modelExtra is what this server tells about a model in its list.
func (s *Server) modelExtra() map[string]any {
	n := s.opt.ContextLength
	switch s.opt.Like {
	case LikeOpenRouter:
		return map[string]any{"context_length": n, "top_provider": map[string]any{"context_length": n}, "architecture": map[string]any{"input_modalities": []string{"text"}}}
	case LikeLlamaCPP:
		return map[string]any{"meta": map[string]any{"n_ctx_train": n}}
	case "", LikeVLLM, LikeSGLang:
		if n > 0 {
			return map[string]any{"max_model_len": n}
		}
		return map[string]any{"max_model_len": nil}
	}
	return nil
}

// finish is the finish_reason of a chat answer.
func (w ways) finish(a *model.Answer) string {
	if w.stops && a.Finish == "tool_calls" {
		return "stop"
	}
	return a.Finish
}

// cachedTokens is what a server that caches prompts found of this one: all but the last
// part, once the conversation has begun.
func (x *exchange) cachedTokens() int {
	if x.q.Talk.Turns == 0 {
		return 0
	}
	return x.a.Prompt / 2
}

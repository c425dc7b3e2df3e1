package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// overflow lists how servers say that the context is full, in lower case: OpenAI and
// vLLM, SGLang, llama.cpp, Ollama, LM Studio, Anthropic, Gemini, xAI, Groq, Moonshot,
// Qwen, Mistral, Copilot, Bedrock.
var overflow = []string{
	"context_length_exceeded", "maximum context length", "context length exceeded", "max context length",
	"longer than the model's context length", "exceeds the model's maximum context", "exceeds the context",
	"longer than the maximum model length", "max_model_len", "exceed_context_size", "available context size",
	"context size has been exceeded", "greater than the context length", "exceeds the model's context",
	"prompt is too long", "prompt too long", "input is too long", "context window", "exceed context limit",
	"exceeds the maximum number of tokens", "maximum prompt length", "maximum input length", "max_prompt_tokens_exceeded",
	"reduce the length of the messages", "reduce the length of the input", "exceeded model token limit",
	"range of input length should be", "too large for model with", "input length and `max_tokens` exceed",
	"prompt token count", "input token count", "prompt_too_long", "context limit", "token limit exceeded",
	"tokens in request more than max tokens allowed", "model_context_window_exceeded",
}

// toolless lists how servers say that they take no tools, in lower case: Ollama, vLLM,
// OpenRouter, llama.cpp, Groq and others.
var toolless = []string{
	"does not support tools", "tool choice requires", "support tool use", "requires --jinja", "does not support function calling",
	"tools are not supported", "tools is not supported", "`tools` is not supported", "tool use is not supported",
	"tool calling is not supported", "function calling is not supported", "function calling is not enabled",
}

// closed lists how servers say that an endpoint is there but not open, in lower case: vLLM,
// llama.cpp, SGLang.
var closed = []string{
	"endpoints are disabled", "endpoint is disabled", "endpoint disabled", "api is disabled", "is not enabled", "not enabled on this server",
	"--enable-scale-out", "does not support this endpoint", "start it with", "restart with",
}

// body is what servers write about an error, in the shapes in use.
type body struct {
	Error   json.RawMessage `json:"error"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
}

type fault struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Metadata struct {
		Raw json.RawMessage `json:"raw"`
	} `json:"metadata"`
}

// describe reads an error body: a sentence, a type or code word, and a status hidden in it.
func describe(raw []byte) (text, word string, status int) {
	raw = bytes.TrimSpace(raw)
	var b body
	if json.Unmarshal(raw, &b) != nil {
		return excerpt(string(raw)), "", 0
	}
	var f fault
	var s string
	switch {
	case json.Unmarshal(b.Error, &s) == nil && s != "":
		f = fault{Message: s, Type: b.Type, Code: b.Code}
	case json.Unmarshal(b.Error, &f) == nil && len(b.Error) > 0:
	case b.Message != "":
		f = fault{Message: b.Message, Type: b.Type, Code: b.Code}
	case len(b.Detail) > 0:
		f = fault{Message: string(b.Detail)}
	}
	if f.Message == "" {
		f.Message = string(raw)
	}
	if more := strings.Trim(string(f.Metadata.Raw), `"`); more != "" && more != "null" {
		f.Message += " (" + more + ")"
	}
	code := strings.Trim(string(f.Code), `"`)
	if code == "null" {
		code = ""
	}
	if n, err := strconv.Atoi(code); err == nil {
		status, code = n, ""
	}
	return excerpt(f.Message), strings.TrimSpace(strings.TrimSpace(f.Type) + " " + code), status
}

func excerpt(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\ufffd")
	if len(s) > 600 {
		s = strings.ToValidUTF8(s[:600], "") + " …"
	}
	return s
}

// Classify makes an error of an answer with a status that is not 200, or of an error
// that came inside a 200. now is for a Retry-After that is a date.
func Classify(status int, header http.Header, raw []byte, now time.Time) *Error {
	text, word, inner := describe(raw)
	if status == http.StatusOK {
		status = inner
	}
	e := &Error{Status: status, After: RetryAfter(header, now)}
	e.Kind = kindOf(status, strings.ToLower(text+" "+word), e)
	if text == "" {
		text = http.StatusText(status)
	}
	if status != 0 {
		text = fmt.Sprintf("status %d: %s", status, text)
	}
	if word != "" {
		text += " [" + word + "]"
	}
	e.Err = errors.New(text)
	return e
}

func kindOf(status int, low string, e *Error) Kind {
	rate := has(low, "rate limit", "rate_limit", "tokens per min", "requests per min", "too many requests")
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return Overlong
	case has(low, "insufficient_quota", "insufficient credits", "insufficient balance", "billing") || status == http.StatusPaymentRequired:
		e.keyed = true
		return Auth
	case status == http.StatusTooManyRequests, rate && (status == 0 || status >= 400):
		e.overload, e.keyed = true, true
		return Limited
	case status == http.StatusForbidden && has(low, closed...):
		return Rejected // the endpoint, not the key
	case status == http.StatusUnauthorized, status == http.StatusForbidden, has(low, "invalid_api_key", "invalid api key"):
		if status == http.StatusForbidden && has(low, "moderation", "flagged") {
			return Rejected
		}
		e.keyed = true
		return Auth
	case has(low, overflow...):
		return Overlong
	case has(low, toolless...):
		return NoTools
	case has(low, "model_not_found", "not a valid model", "no such model", "unknown model"),
		(status == http.StatusNotFound || status == http.StatusBadRequest) && has(low, "model") && has(low, "does not exist", "not found", "no endpoints"):
		return NoModel
	case has(low, "overloaded", "no available capacity", "server is busy", "queue is full", "at capacity"), status == http.StatusServiceUnavailable, status == 529:
		e.overload = true
		if status == http.StatusServiceUnavailable && !has(low, "overload", "busy", "queue", "capacity") {
			return Unavailable
		}
		return Limited
	case status == http.StatusNotImplemented:
		return Rejected // and will be again
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500, status == 0:
		return Unavailable
	}
	return Rejected
}

func has(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// RetryAfter reads when a server says to come back: retry-after-ms, Retry-After in
// seconds (fractions too) or as a date, and x-ratelimit-reset as seconds or milliseconds
// since 1970. 0: it does not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	if n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && n > 1e9 {
		if n < 1e11 {
			n *= 1000
		}
		return max(0, time.UnixMilli(n).Sub(now))
	}
	return 0
}

func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 86400) * float64(time.Second))
}

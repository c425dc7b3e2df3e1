// Package finish knows why answers end: one table of all finish reasons that servers are
// known to give. A reason that is not in the table is no answer.
package finish

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"hermes/rollout/policy"
	"hermes/rollout/policy/loose"
	"hermes/trajectory"
)

// Reason is what a server's finish reason means.
type Reason int

// The meanings. What is not known is no answer.
const (
	Unknown Reason = iota
	None           // not said
	Stop           // the model ended by itself, or wrote a stop string
	Calls          // likewise, with calls
	Length         // a limit cut it: tokens, context, a loop that the server noticed
	Filter         // a content filter cut it, or refused
	Aborted        // the server broke it off: what came counts, the rest is to be asked for
	Failed         // the provider failed
)

// Of is the table of all finish reasons that servers are known to give, whatever
// their case: OpenAI, Azure, vLLM, SGLang, llama.cpp, TGI, TensorRT-LLM, LMDeploy, MLC,
// Ollama, OpenRouter, Anthropic, Bedrock, Gemini, Cohere, Mistral, DeepSeek, GLM,
// Moonshot, Qwen, MiniMax, ERNIE, Hunyuan, watsonx.
func Of(word string) Reason {
	if e := named(word); e != Unknown { // nearly always
		return e
	}
	return named(Plain(word))
}

func named(word string) Reason {
	switch word {
	case "", "null", "none", "not_finished", "finish_reason_unspecified":
		return None
	case "stop", "stopped", "eos", "eos_token", "end", "end_turn", "endoftext", "word", "stop_word", "stop_sequence", "stop_string", "stop_token",
		"stop_token_id", "matched_token", "matched_str", "complete", "completed", "finished", "normal":
		return Stop
	case "tool_calls", "tool_call", "tool_use", "function_call":
		return Calls
	case "length", "limit", "max_tokens", "max_token", "max_length", "max_new_tokens", "max_output", "max_output_tokens", "max_completion_tokens",
		"model_length", "token_limit", "context_length", "context_length_exceeded", "context_window", "model_context_window_exceeded", "incomplete",
		"repetition":
		return Length
	case "content_filter", "content_filtered", "filter", "filtered", "refusal", "refused", "safety", "sensitive", "moderation", "blocked", "blocklist",
		"recitation", "prohibited_content", "spii", "language", "image_safety", "image_prohibited_content", "image_recitation", "model_armor",
		"guardrail_intervened", "guardrails", "error_toxic":
		return Filter
	case "abort", "aborted", "user_abort", "cancel", "cancelled", "canceled", "user_cancel", "interrupted", "preempt", "preempted", "pause_turn", "paused",
		"timeout", "time_limit", "time_out":
		return Aborted
	case "error", "failed", "failure", "network_error", "insufficient_system_resource", "malformed_function_call", "malformed_tool_use", "server_error", "internal_error",
		"internal_server_error", "compute_error", "connection_error", "rate_limit", "rate_limited", "overloaded",
		"malformed_model_output", "malformed_response", "unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature", "image_other",
		"no_image", "other", "unknown", "error_limit", "load", "unload", "in_progress", "queued":
		return Failed
	}
	return Unknown
}

// Plain is a finish reason as the table spells it.
func Plain(word string) string {
	word = strings.TrimSpace(word)
	var b strings.Builder
	small := false
	for _, r := range word {
		switch {
		case r == '-' || r == ' ':
			r = '_'
		case 'A' <= r && r <= 'Z' && small: // maxTokens
			b.WriteByte('_')
		}
		small = 'a' <= r && r <= 'z'
		b.WriteRune(unicode.ToLower(r))
	}
	word = b.String()
	for _, kind := range []string{"finish_reason.", "finishreason.", "finish_reason_", "finish_"} { // names of enumerations
		word = strings.TrimPrefix(word, kind)
	}
	return word
}

// Gravity orders what finish reasons mean: a word never softens what an earlier one said,
// and of two of the same gravity the first counts.
func (e Reason) Gravity() int {
	switch e {
	case None:
		return 0
	case Stop:
		return 1
	case Calls:
		return 2
	}
	return 3
}

// Err is why an answer with such a finish reason is none, or nil. The same may be
// asked again.
func Err(word string) error {
	switch Of(word) {
	case Aborted:
		return &policy.Error{Kind: policy.Unavailable, Status: http.StatusOK, Err: fmt.Errorf("the model server broke the answer off (finish_reason %q)", word)}
	case Failed:
		return &policy.Error{Kind: policy.Unavailable, Status: http.StatusOK, Err: fmt.Errorf("the model server failed within the answer (finish_reason %q)", word)}
	case Unknown:
		return policy.Malformedf("the model server ended the answer with finish_reason %.80q, which is none that is known: what came is not taken for an answer", word)
	}
	return nil
}

// Parse maps the word with which servers of tokens end an answer.
func Parse(word string) (trajectory.Finish, error) {
	switch Of(word) {
	case Stop, Calls:
		return trajectory.FinishStop, nil
	case Length:
		return trajectory.FinishLength, nil
	case Filter:
		return trajectory.FinishFilter, nil
	case Aborted:
		return trajectory.FinishAborted, nil
	case None:
		return "", policy.Malformedf("the answer has no finish_reason")
	}
	return "", Err(word)
}

// Word is a finish reason of a chat answer: a word, or SGLang's
// {"type": …}.
type Word string

// UnmarshalJSON reads it; what is neither is kept as it is, and so unknown.
func (f *Word) UnmarshalJSON(raw []byte) error {
	var o struct {
		Type string `json:"type"`
	}
	if len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &o) == nil && o.Type != "" {
		*f = Word(o.Type)
		return nil
	}
	*f = Word(loose.Plain(raw))
	return nil
}

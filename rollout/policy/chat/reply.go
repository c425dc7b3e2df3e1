package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// reply is a whole answer or one piece of a stream; servers differ in little else than
// message and delta.
type reply struct {
	Model   loose.Label     `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *servers.Usage  `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Groq    json.RawMessage `json:"x_groq"` // the books of a stream are in it
}

type choice struct {
	Index   loose.Place     `json:"index"`
	Message *said           `json:"message"`
	Delta   *said           `json:"delta"`
	Text    json.RawMessage `json:"text"` // of the older form, without a message
	Finish  finish.Word     `json:"finish_reason"`
	Native  finish.Word     `json:"native_finish_reason"` // the provider's, behind a router
	Error   json.RawMessage `json:"error"`
	Usage   json.RawMessage `json:"usage"`      // Moonshot's place of the books
	Calls   json.RawMessage `json:"tool_calls"` // beside the message instead of in it
}

// said is a message or a delta.
type said struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	Details          json.RawMessage `json:"reasoning_details"`
	Calls            []called        `json:"tool_calls"`
	Function         *function       `json:"function_call"` // the older form
}

// failure reports whether the error of a document says that something failed: some servers
// write an empty one, or one that says that all went well, beside each answer.
func failure(raw json.RawMessage) bool {
	if !loose.Present(raw) {
		return false
	}
	var f struct {
		Message loose.Label `json:"message"`
		Type    loose.Label `json:"type"`
		Code    loose.Label `json:"code"`
	}
	switch raw[0] {
	case '"':
		return len(raw) > 2
	case '[':
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0
	case 't':
		return true
	case '{':
		if json.Unmarshal(raw, &f) != nil {
			return true
		}
		fine := f.Code == "" || f.Code == "0" || f.Code == "200" || strings.EqualFold(string(f.Code), "success")
		return !fine || f.Code == "" && f.Message+f.Type != ""
	default:
		v, ok := loose.Number(raw)
		return ok && v != 0 && v != 200
	}
}

// saysItself reports whether a choice says itself that it failed: that says more.
func saysItself(list []choice) bool {
	for i := range list {
		if loose.Present(list[i].Error) || strings.EqualFold(string(list[i].Finish), "error") {
			return true
		}
	}
	return false
}

func choiceError(list ...json.RawMessage) error {
	for _, raw := range list {
		if loose.Present(raw) {
			return wire.Classify(http.StatusOK, nil, []byte(`{"error":`+string(raw)+`}`), time.Time{})
		}
	}
	return &policy.Error{Kind: policy.Unavailable, Status: http.StatusOK, Err: errors.New(`the answer ended with finish_reason "error"`)}
}

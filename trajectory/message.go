// Package trajectory is the data model of hermes: messages, tokens, the trace of
// one rollout and the record that is kept of it.
//
// A [Trace] grows by whole turns ([Trace.Commit]); each turn carries exactly the
// tokens that it added, so nothing is ever tokenized again. A trace is a tree with
// parent links: the usual rollout is one path, a rewind or a fork adds a leaf. What
// a model sampled is always the tail of a node, so the training mask is one integer.
//
// Messages are values; a trace belongs to one rollout and is not safe for concurrent
// use. The package imports the standard library only.
package trajectory

import (
	"encoding/json"
	"strings"
)

// Token is one id of a model's vocabulary.
type Token int32

// Role says who speaks in a [Message].
type Role string

// The roles of a conversation.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// PartKind is the kind of content that a [Part] holds.
type PartKind string

// The kinds of parts.
const (
	PartText  PartKind = "text"
	PartImage PartKind = "image"
	PartAudio PartKind = "audio"
)

// Part is one piece of a message's content. Text is in Text; other kinds are
// named by URL or, when large, by the SHA-256 of a blob of the run directory.
type Part struct {
	Kind      PartKind `json:"kind"`
	Text      string   `json:"text,omitempty"`
	URL       string   `json:"url,omitempty"`
	Blob      string   `json:"blob,omitempty"`
	MediaType string   `json:"media_type,omitempty"`
	Ephemeral bool     `json:"ephemeral,omitempty"` // seen by the model, left out of text exports
}

// CallState says how sure the reader of an answer is of a call.
type CallState string

// The states of a call. The zero value is a call that was complete.
const (
	CallComplete  CallState = ""
	CallRecovered CallState = "recovered" // a mark was missing; the value is what was there
	CallAmbiguous CallState = "ambiguous" // another reading is possible
	CallTruncated CallState = "truncated" // the answer ended inside the call
	CallMalformed CallState = "malformed" // the name is known, the arguments are not readable
)

// String names the state; the zero value is "complete".
func (s CallState) String() string {
	if s == CallComplete {
		return "complete"
	}
	return string(s)
}

// Call is one tool call as the model wrote it. Arguments is the text of the model,
// usually a JSON object; it is kept even if it cannot be read.
type Call struct {
	ID        string    `json:"id,omitempty"`
	Name      string    `json:"name"`
	Arguments string    `json:"arguments"`
	State     CallState `json:"state,omitempty"`
}

// Fault is a place of an answer that could not be read as the model's family writes it.
// From and To are bytes of the answer's text: in exact mode of what its tokens decode to,
// else of the message's content, at whose end the faults of calls are that the server read.
type Fault struct {
	Kind    string `json:"kind"` // a short stable word: truncated, unread, unknown_tool …
	Message string `json:"message"`
	From    int    `json:"from"`
	To      int    `json:"to"`
}

// Message is one entry of a conversation.
type Message struct {
	Role      Role            `json:"role"`
	Parts     []Part          `json:"parts,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Calls     []Call          `json:"calls,omitempty"`     // assistant: what it wants to run
	CallID    string          `json:"call_id,omitempty"`   // tool: which call this answers
	Name      string          `json:"name,omitempty"`      // tool: the function's name
	Opaque    json.RawMessage `json:"opaque,omitempty"`    // provider state that must be replayed
	Ephemeral bool            `json:"ephemeral,omitempty"` // seen by the model, left out of exports
	Failed    bool            `json:"failed,omitempty"`    // tool: the call did not succeed
}

// Text returns a message of one text part; empty text gives a message without parts.
func Text(role Role, text string) Message {
	m := Message{Role: role}
	if text != "" {
		m.Parts = []Part{{Kind: PartText, Text: text}}
	}
	return m
}

// Content joins the text parts of m.
func (m Message) Content() string {
	if len(m.Parts) == 1 && m.Parts[0].Kind == PartText {
		return m.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// ToolSpec is what a model is shown of one tool. Parameters is a JSON schema.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

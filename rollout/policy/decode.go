package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// reply is a whole answer or one piece of a stream; servers differ in little else than
// message and delta.
type reply struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index   int             `json:"index"`
	Message *said           `json:"message"`
	Delta   *said           `json:"delta"`
	Finish  string          `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`
}

// said is a message or a delta.
type said struct {
	Content          json.RawMessage `json:"content"`
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	Details          json.RawMessage `json:"reasoning_details"`
	Calls            []called        `json:"tool_calls"`
	Function         *function       `json:"function_call"` // the older form
}

type called struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function *function       `json:"function"`
	Extra    json.RawMessage `json:"extra_content"` // signatures of thoughts
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // text; an object from Ollama and some others
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
	Cached     int64 `json:"cached_tokens"`
	Hit        int64 `json:"prompt_cache_hit_tokens"`
	PromptMore *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost     *float64 `json:"cost"`
	CostMore *struct {
		Upstream float64 `json:"upstream_inference_cost"`
	} `json:"cost_details"`
	BYOK bool `json:"is_byok"`
}

func (u *usage) total() trajectory.Usage {
	t := trajectory.Usage{Prompt: u.Prompt, Completion: u.Completion, Reasoning: u.Reasoning, Cached: max(u.Cached, u.Hit)}
	if u.PromptMore != nil {
		t.Cached = max(t.Cached, u.PromptMore.Cached)
	}
	if u.CompletionMore != nil {
		t.Reasoning = max(t.Reasoning, u.CompletionMore.Reasoning)
	}
	if u.Cost != nil {
		t.Cost, t.CostKnown = *u.Cost, true
		if u.BYOK && u.CostMore != nil {
			t.Cost += u.CostMore.Upstream
		}
	}
	return t
}

// answer puts an answer together, from one document or from the pieces of a stream.
type answer struct {
	on       func(Chunk)
	place    int // of the answer in the conversation, for calls without an id
	content  strings.Builder
	thoughts strings.Builder
	think    thinker
	details  []map[string]json.RawMessage
	calls    []*partial
	field    string // where the server put reasoning
	finish   string
	model    string
	usage    *usage
	pieces   int
}

type partial struct {
	index int
	id    string
	name  string
	args  strings.Builder
	extra json.RawMessage
}

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Status: http.StatusOK, Err: fmt.Errorf(format, args...)}
}

// read takes one document: a whole answer or a piece.
func (a *answer) read(raw []byte) error {
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		return malformed("the answer is no JSON that we can read: %w (%.200q)", err, raw)
	}
	if present(r.Error) && len(r.Choices) == 0 {
		return wire.Classify(http.StatusOK, nil, raw, time.Time{})
	}
	if r.Model != "" {
		a.model = r.Model
	}
	if r.Usage != nil {
		a.usage = r.Usage
	}
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.Index != 0 {
			continue
		}
		if c.Delta == nil {
			c.Delta = c.Message
		}
		if c.Delta != nil {
			if err := a.said(c.Delta, c.Message != nil); err != nil {
				return err
			}
		}
		if c.Finish != "" {
			a.finish = c.Finish
		}
		if present(c.Error) || c.Finish == "error" {
			return choiceError(c.Error, r.Error)
		}
	}
	return nil
}

func choiceError(list ...json.RawMessage) error {
	for _, raw := range list {
		if present(raw) {
			return wire.Classify(http.StatusOK, nil, []byte(`{"error":`+string(raw)+`}`), time.Time{})
		}
	}
	return &Error{Kind: Unavailable, Status: http.StatusOK, Err: errors.New(`the answer ended with finish_reason "error"`)}
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

func (a *answer) said(s *said, whole bool) error {
	thought, err := flat(s.Reasoning)
	if err != nil {
		thought = "" // an object about reasoning, not its text
	}
	switch {
	case s.ReasoningContent != "":
		thought, a.field = s.ReasoningContent, "reasoning_content"
	case thought != "":
		a.field = "reasoning"
	}
	if present(s.Details) {
		text, err := a.detail(s.Details)
		if err != nil {
			return malformed("reasoning_details: %w", err)
		}
		if thought == "" {
			thought = text
		}
	}
	text, err := flat(s.Content)
	if err != nil {
		return malformed("content: %w", err)
	}
	a.show(thought, text+s.Refusal)
	for i := range s.Calls {
		if err := a.call(&s.Calls[i], whole); err != nil {
			return err
		}
	}
	if s.Function != nil {
		return a.call(&called{Function: s.Function}, whole)
	}
	return nil
}

// show takes a piece of reasoning and of content; think tags move text between them.
func (a *answer) show(thought, text string) {
	if thought == "" && text == "" {
		return
	}
	a.pieces++
	before := a.think.seen
	inner, outer := a.think.feed(text)
	if a.think.seen && !before {
		a.field = replayTags
	}
	a.put(thought+inner, outer)
}

func (a *answer) put(thought, text string) {
	a.thoughts.WriteString(thought)
	a.content.WriteString(text)
	if a.on != nil && thought+text != "" {
		a.on(Chunk{Content: text, Reasoning: thought, Tokens: 1})
	}
}

// detail keeps reasoning_details, joining pieces that belong together, and returns
// their text.
func (a *answer) detail(raw json.RawMessage) (string, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, d := range list {
		for _, k := range []string{"text", "summary"} {
			var s string
			if json.Unmarshal(d[k], &s) == nil {
				text.WriteString(s)
			}
		}
		if n := len(a.details); n > 0 && present(d["index"]) && bytes.Equal(a.details[n-1]["index"], d["index"]) && bytes.Equal(a.details[n-1]["type"], d["type"]) {
			if err := join(a.details[n-1], d); err != nil {
				return "", err
			}
			continue
		}
		a.details = append(a.details, d)
	}
	return text.String(), nil
}

func join(to, from map[string]json.RawMessage) error {
	for k, v := range from {
		var s, had string
		if k == "text" || k == "summary" || k == "data" {
			if json.Unmarshal(v, &s) == nil && json.Unmarshal(to[k], &had) == nil {
				both, err := json.Marshal(had + s)
				if err != nil {
					return err
				}
				v = both
			}
		}
		if present(v) || !present(to[k]) {
			to[k] = v
		}
	}
	return nil
}

// call takes one call or a piece of one. Servers disagree about the index: some leave it
// out, some give every call 0. A new id, or a name after arguments, begins a new call.
func (a *answer) call(c *called, whole bool) error {
	index := -1
	if c.Index != nil {
		index = *c.Index
	}
	var f function
	if c.Function != nil {
		f = *c.Function
	}
	var at *partial
	if !whole { // the calls of a whole message are complete
		at = a.find(index, c.ID, f.Name)
	}
	if at == nil {
		at = &partial{index: index}
		a.calls = append(a.calls, at)
		if a.on != nil && f.Name != "" {
			a.on(Chunk{Call: f.Name})
		}
	}
	a.pieces++
	if at.id == "" {
		at.id = c.ID
	}
	if at.name == "" {
		at.name = f.Name
	}
	if present(c.Extra) {
		at.extra = c.Extra
	}
	args, err := arguments(f.Arguments)
	if err != nil {
		return malformed("arguments of a call of %s: %w", at.name, err)
	}
	at.args.WriteString(args)
	return nil
}

// find returns the call that a piece continues, or nil where it begins one.
func (a *answer) find(index int, id, name string) *partial {
	var at *partial
	for _, p := range a.calls {
		if id != "" && p.id == id {
			return p
		}
		if index < 0 || p.index == index {
			at = p // the last one
		}
	}
	switch {
	case at == nil:
	case id != "" && at.id != "": // the same index, another id
		return nil
	case name != "" && at.name != "" && (at.name != name || at.args.Len() > 0):
		return nil
	}
	return at
}

// arguments reads a JSON string, or an object as text.
func arguments(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	return unquote(raw)
}

// unquote reads a JSON string that is known to be one. Most hold nothing to replace.
func unquote(raw []byte) (s string, err error) {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// flat reads text: a string, null, or a list of parts with text.
func flat(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	if raw[0] == '"' {
		return unquote(raw)
	}
	var s string
	var list []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	for _, p := range list {
		s += p.Text + p.Refusal
	}
	return s, nil
}

// whole reads a plain answer; a stored stream is one too.
func (a *answer) whole(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] != '{' && bytes.Contains(raw, []byte("data:")) {
		for data, err := range wire.Events(bytes.NewReader(append(raw, "\n\n"...)), len(raw)+2) {
			if err != nil {
				return malformed("stored stream: %w", err)
			}
			if err := a.read(data); err != nil {
				return err
			}
		}
	} else if err := a.read(raw); err != nil {
		return err
	}
	a.end()
	return a.check()
}

// end closes the answer: what a tag splitter held back comes out.
func (a *answer) end() {
	inner, outer := a.think.end()
	a.put(inner, outer)
}

// check says whether the answer is one.
func (a *answer) check() error {
	if a.finish == "" && a.pieces == 0 {
		return malformed("the answer has no choice with a message")
	}
	return nil
}

// delta is the finished message. cut: the answer was broken off, so that calls which
// cannot be read are left out.
func (a *answer) delta(cut bool) (trajectory.Delta, trajectory.Finish, error) {
	text := a.content.String()
	thoughts := a.thoughts.String()
	if before, after, ok := strings.Cut(text, "</think>"); ok && thoughts == "" && !strings.Contains(before, "<think>") && (after == "" || after[0] == '\n') {
		thoughts, text, a.field = before, after, replayTags // the template had opened the tag
	}
	if a.field == replayTags {
		text = strings.TrimLeft(text, "\r\n")
	}
	m := trajectory.Text(trajectory.Assistant, text)
	m.Reasoning = thoughts
	var o opaque
	for i, p := range a.calls {
		args := p.args.String()
		if cut && !json.Valid([]byte(args)) {
			continue
		}
		id := p.id
		if id == "" {
			id = "call_" + strconv.Itoa(a.place) + "_" + strconv.Itoa(i)
		}
		m.Calls = append(m.Calls, trajectory.Call{ID: id, Name: p.name, Arguments: args})
		if p.extra != nil {
			for len(o.Calls) < len(m.Calls)-1 {
				o.Calls = append(o.Calls, json.RawMessage("{}"))
			}
			o.Calls = append(o.Calls, json.RawMessage(`{"extra_content":`+string(p.extra)+`}`))
		}
	}
	if len(a.details) > 0 {
		raw, err := json.Marshal(a.details)
		if err != nil {
			return trajectory.Delta{}, "", fmt.Errorf("reasoning_details: %w", err)
		}
		o.Details = raw
	}
	if o.Details != nil || o.Calls != nil {
		raw, err := json.Marshal(o)
		if err != nil {
			return trajectory.Delta{}, "", fmt.Errorf("provider state: %w", err)
		}
		m.Opaque = raw
	}
	return trajectory.Delta{Message: m}, a.ending(len(m.Calls), cut), nil
}

func (a *answer) ending(calls int, cut bool) trajectory.Finish {
	switch {
	case cut:
		return trajectory.FinishAborted
	case a.finish == "length" || a.finish == "max_tokens" || a.finish == "model_length":
		return trajectory.FinishLength
	case a.finish == "content_filter" || a.finish == "refusal":
		return trajectory.FinishFilter
	case calls > 0:
		return trajectory.FinishCalls
	}
	return trajectory.FinishStop
}

// ReadAnswer reads a raw answer as a server sent it and a tape holds it: one document or
// an event stream. It serves tools that look at stored answers.
func ReadAnswer(raw []byte) (trajectory.Message, error) {
	var a answer
	if err := a.whole(raw); err != nil {
		return trajectory.Message{}, err
	}
	d, _, err := a.delta(false)
	return d.Message, err
}

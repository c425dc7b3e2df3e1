package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// answer puts an answer together, from one document or from the pieces of a stream.
type answer struct {
	on       func(policy.Chunk)
	place    int // of the answer in the conversation, for calls without an id
	content  strings.Builder
	thoughts strings.Builder
	think    thinker
	details  []map[string]json.RawMessage
	calls    []*partial
	open     *partial // the call to which a piece belongs that names none
	stray    bool     // a piece named the place of no call, or of one that was complete
	mixed    bool     // pieces of calls came in a way that cannot be distinguished
	field    string   // where the server put reasoning
	finish   string
	model    string
	usage    *servers.Usage
	pieces   int
	deltas   bool // text or calls came in pieces
	messages bool // a choice had a message, or a piece of one
	leaks    *wire.Leaks
	held     [2]string // ends of reasoning and content that are not shown: they may begin a key
	leak     error     // what was to be shown held a key
}

// read takes one document: a whole answer or a piece.
func (a *answer) read(raw []byte) error {
	r, err := readReply(raw)
	if err != nil {
		return policy.Malformedf("the answer is no JSON that we can read: %w (%.200q)", err, raw)
	}
	if loose.Present(r.Error) && len(r.Choices) == 0 || failure(r.Error) && !saysItself(r.Choices) {
		return wire.Classify(http.StatusOK, nil, raw, time.Time{})
	}
	if r.Model != "" {
		a.model = string(r.Model)
	}
	a.books(r.books())
	taken := false // a whole message of this document
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.Index.N != 0 {
			continue
		}
		whole := c.Delta == nil
		if whole && c.Message != nil && taken && !a.adds(c.Message) {
			continue // another answer, which was not asked for
		}
		taken = taken || whole && c.Message != nil
		if whole {
			c.Delta = c.Message
		}
		if c.Delta != nil && len(c.Delta.Calls) == 0 && loose.Present(c.Calls) {
			c.Delta.Calls, err = readCalls(c.Calls)
			if err != nil {
				return policy.Malformedf("calls beside the message: %w", err)
			}
		}
		if c.Delta == nil && loose.Present(c.Text) {
			c.Delta = &said{Content: c.Text}
		}
		switch {
		case c.Delta == nil:
		case whole && a.deltas:
			if err := a.summed(c.Delta); err != nil {
				return err
			}
		default:
			a.messages = true
			a.deltas = a.deltas || !whole && (len(c.Delta.Calls) > 0 || len(c.Delta.Content) > 2)
			if err := a.said(c.Delta, whole); err != nil {
				return err
			}
		}
		a.finished(string(c.Finish))
		a.native(string(c.Native))
		if loose.Present(c.Error) || strings.EqualFold(string(c.Finish), "error") {
			return choiceError(c.Error, r.Error)
		}
	}
	return nil
}

// adds reports whether a second message holds the calls of the first, as servers send them
// that make a choice of each block of Anthropic's answers.
func (a *answer) adds(s *said) bool {
	return finish.Of(a.finish) == finish.Calls && len(a.calls) == 0 && len(s.Calls) > 0 && !(loose.Present(s.Content) && string(s.Content) != `""`)
}

// summed takes the whole message that some servers send behind the pieces of it: what came
// in pieces is not said twice, what did not is said now.
func (a *answer) summed(s *said) error {
	text, _, err := flat(s.Content)
	if err != nil {
		return policy.Malformedf("content: %w", err)
	}
	so := strings.TrimSpace(a.content.String() + a.think.held)
	rest := *s
	text = strings.TrimSpace(text)
	if so != "" || text == "" {
		if !strings.HasSuffix(text, so) && text != "" {
			return policy.Malformedf("the message at the end of the stream is not what its pieces say: %.80q", text)
		}
		rest.Content = nil
	}
	if len(a.calls) > 0 {
		rest.Calls, rest.Function = nil, nil
	}
	if a.thoughts.Len() > 0 || rest.Content == nil {
		rest.Reasoning = nil
		rest.ReasoningContent = nil
		rest.Details = nil
	}
	return a.said(&rest, true)
}

func (a *answer) said(s *said, whole bool) error {
	thought, _, err := flat(s.Reasoning)
	if err != nil {
		thought = "" // an object about reasoning, not its text
	}
	other, _, err := flat(s.ReasoningContent)
	if err != nil {
		return policy.Malformedf("reasoning_content: %w", err)
	}
	switch {
	case other != "":
		thought, a.field = other, "reasoning_content"
	case thought != "":
		a.field = "reasoning"
	}
	if details := listOf(s.Details); details != nil {
		text, err := a.detail(details)
		if err != nil {
			return policy.Malformedf("reasoning_details: %w", err)
		}
		if thought == "" {
			thought = text
		}
	}
	text, inner, err := flat(s.Content)
	if err != nil {
		return policy.Malformedf("content: %w", err)
	}
	refusal := ""
	if string(s.Refusal) != "false" { // a flag, where others have the text
		refusal, _, err = flat(s.Refusal)
		if err != nil {
			return policy.Malformedf("refusal: %w", err)
		}
	}
	a.show(thought+inner, text+refusal)
	some := false
	for i := range s.Calls {
		some = some || !s.Calls[i].void()
		if err := a.call(&s.Calls[i], whole); err != nil {
			return err
		}
	}
	if !some {
		for _, c := range partCalls(s.Content) {
			some = true
			if err := a.call(&c, true); err != nil {
				return err
			}
		}
	}
	if s.Function != nil && !some { // some servers write both forms
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
		a.on(policy.Chunk{Content: a.safe(1, loose.Mend(text)), Reasoning: a.safe(0, loose.Mend(thought))})
	}
}

// mark is what may come before a document or a stream.
const mark = "\ufeff"

// whole reads a plain answer; a stored stream is one too.
func (a *answer) whole(raw []byte) error {
	raw = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte(mark)))
	if isStream(raw) {
		for data, err := range wire.Events(bytes.NewReader(append(raw, "\n\n"...)), len(raw)+2) {
			if _, ok := errors.AsType[*policy.Error](err); ok {
				return err
			}
			if err != nil {
				return policy.Malformedf("stored stream: %w", err)
			}
			if err := a.read(data); err != nil {
				return err
			}
		}
		if a.finish == "" {
			return policy.Malformedf("the stream ended after %d pieces without a finish_reason", a.pieces)
		}
	} else {
		if err := a.read(raw); err != nil {
			return err
		}
		if !a.messages {
			return policy.Malformedf("the answer has no choice with a message: %.200q", raw)
		}
	}
	a.end()
	return cmp.Or(a.leaked(), a.check())
}

// isStream reports whether raw are the events of a stream, or a JSON object a line, rather than
// one document.
func isStream(raw []byte) bool {
	if len(raw) > 0 && raw[0] != '{' {
		return bytes.Contains(bytes.ToLower(raw), []byte("data:"))
	}
	line, rest, ok := bytes.Cut(raw, []byte("\n"))
	return ok && len(bytes.TrimSpace(rest)) > 0 && json.Valid(line)
}

// end closes the answer: what a tag splitter held back comes out, calls are put right.
func (a *answer) end() {
	inner, outer := a.think.end()
	a.put(inner, outer)
	if rest := a.held; a.on != nil && a.leak == nil && rest[0]+rest[1] != "" {
		a.held = [2]string{}
		a.on(policy.Chunk{Reasoning: rest[0], Content: rest[1]})
	}
	a.settle()
}

// check says whether the answer is one.
func (a *answer) check() error {
	if a.finish == "" && a.pieces == 0 {
		return policy.Malformedf("the answer has no choice with a message")
	}
	return a.failed()
}

// failed is why an answer that came to its end is none all the same, or nil. The server
// has failed then, not the model.
func (a *answer) failed() error {
	switch {
	case finish.Of(a.finish) == finish.Calls && len(a.calls) == 0:
		return policy.Malformedf("the model server ended the answer with finish_reason %q and sent no call: it lost the call", a.finish)
	case a.mixed:
		return policy.Malformedf("the model server sent the arguments of %d calls so that it is unknown which belong to which", len(a.calls))
	}
	return finish.Err(a.finish)
}

// delta is the finished message. cut: the answer was broken off, so that calls which
// cannot be read are left out.
func (a *answer) delta(cut bool) (trajectory.Delta, trajectory.Finish, error) {
	text := loose.Mend(a.content.String())
	thoughts := loose.Mend(a.thoughts.String())
	if before, after, ok := strings.Cut(text, "</think>"); ok && thoughts == "" && !strings.Contains(before, "<think>") && (after == "" || after[0] == '\n') {
		thoughts = before
		text = after
		a.field = replayTags // the template had opened the tag
	}
	if a.field == replayTags {
		text = strings.TrimLeft(text, "\r\n")
	}
	m := trajectory.Text(trajectory.Assistant, text)
	m.Reasoning = thoughts
	var o opaque
	for i, p := range a.calls {
		args := loose.Mend(p.args.String())
		if cut && !json.Valid([]byte(args)) {
			continue
		}
		m.Calls = append(m.Calls, trajectory.Call{ID: a.callID(m.Calls, i), Name: loose.Mend(p.name), Arguments: args})
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

// callID is the id of the i-th call: its own, or one that we make where it has none or
// one that names an earlier call already.
func (a *answer) callID(earlier []trajectory.Call, i int) string {
	taken := func(id string) bool {
		return slices.ContainsFunc(earlier, func(c trajectory.Call) bool { return c.ID == id })
	}
	id := loose.Mend(a.calls[i].id)
	if id != "" && !taken(id) {
		return id
	}
	id = "call_" + strconv.Itoa(a.place) + "_" + strconv.Itoa(i)
	for taken(id) {
		id += "_"
	}
	return id
}

func (a *answer) ending(calls int, cut bool) trajectory.Finish {
	kind := finish.Of(a.finish)
	switch {
	case cut:
		return trajectory.FinishAborted
	case kind == finish.Length:
		return trajectory.FinishLength
	case kind == finish.Filter:
		return trajectory.FinishFilter
	case calls > 0:
		return trajectory.FinishCalls
	}
	return trajectory.FinishStop
}

// Read reads a raw answer as a server sent it and a tape holds it: one document or
// an event stream. It serves tools that look at stored answers.
func Read(raw []byte) (trajectory.Message, error) {
	var a answer
	if err := a.whole(raw); err != nil {
		return trajectory.Message{}, err
	}
	d, _, err := a.delta(false)
	return d.Message, err
}

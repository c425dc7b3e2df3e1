package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// reply is a whole answer or one piece of a stream; servers differ in little else than
// message and delta.
type reply struct {
	Model   label           `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Groq    json.RawMessage `json:"x_groq"` // the books of a stream are in it
}

type choice struct {
	Index   listPlace       `json:"index"`
	Message *said           `json:"message"`
	Delta   *said           `json:"delta"`
	Text    json.RawMessage `json:"text"` // of the older form, without a message
	Finish  finishWord      `json:"finish_reason"`
	Native  finishWord      `json:"native_finish_reason"` // the provider's, behind a router
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

type called struct {
	Index    listPlace       `json:"index"`
	ID       label           `json:"id"`
	Function *function       `json:"function"`
	Custom   *function       `json:"custom"`        // of a call of the type custom
	Extra    json.RawMessage `json:"extra_content"` // signatures of thoughts
	function                 // where a server leaves the member function out
}

type function struct {
	Name      label           `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // text; an object from Ollama and some others
	// What some servers call the arguments.
	Parameters json.RawMessage `json:"parameters"`
	Input      json.RawMessage `json:"input"`
	Args       json.RawMessage `json:"args"`
	Tool       label           `json:"tool_name"` // and the name
}

// given are the arguments, by whatever name.
func (f *function) given() json.RawMessage {
	list := []json.RawMessage{f.Arguments, f.Parameters, f.Input, f.Args}
	for _, raw := range list {
		if !idle(raw) {
			return raw
		}
	}
	for _, raw := range list {
		if present(raw) {
			return raw
		}
	}
	return nil
}

type usage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Input      count `json:"input_tokens"`  // of servers with Anthropic's words
	Output     count `json:"output_tokens"` // likewise
	Reasoning  count `json:"reasoning_tokens"`
	Cached     count `json:"cached_tokens"`
	Hit        count `json:"prompt_cache_hit_tokens"`
	PromptMore *struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost     amount `json:"cost"`
	CostMore *struct {
		Upstream amount `json:"upstream_inference_cost"`
	} `json:"cost_details"`
	BYOK bool `json:"is_byok"`
}

// books are the books of a document, where it has them.
func (r *reply) books() *usage {
	if r.Usage != nil {
		return r.Usage
	}
	for i := range r.Choices {
		if u := readUsage(r.Choices[i].Usage); u != nil {
			return u
		}
	}
	if !present(r.Groq) || r.Groq[0] != '{' {
		return nil
	}
	var groq struct {
		Usage json.RawMessage `json:"usage"`
	}
	_ = json.Unmarshal(r.Groq, &groq) // the syntax is right, since the document was read
	return readUsage(groq.Usage)
}

// books takes over books. Servers that send them more than once count up, or leave out what
// they said before: a zero takes nothing back.
func (a *answer) books(u *usage) {
	if old := a.usage; u != nil && old != nil {
		for _, f := range [][2]*count{{&u.Prompt, &old.Prompt}, {&u.Completion, &old.Completion}, {&u.Input, &old.Input}, {&u.Output, &old.Output},
			{&u.Reasoning, &old.Reasoning}, {&u.Cached, &old.Cached}, {&u.Hit, &old.Hit}} {
			if *f[0] == 0 {
				*f[0] = *f[1]
			}
		}
		if u.PromptMore == nil {
			u.PromptMore = old.PromptMore
		}
		if u.CompletionMore == nil {
			u.CompletionMore = old.CompletionMore
		}
		if !u.Cost.known || u.Cost.v == 0 {
			u.Cost = old.Cost
		}
		if u.CostMore == nil {
			u.CostMore, u.BYOK = old.CostMore, old.BYOK || u.BYOK
		}
	}
	if u != nil {
		a.usage = u
	}
}

func (u *usage) total() trajectory.Usage {
	cached, reasoning := max(u.Cached, u.Hit), u.Reasoning
	if u.PromptMore != nil {
		cached = max(cached, u.PromptMore.Cached)
	}
	if u.CompletionMore != nil {
		reasoning = max(reasoning, u.CompletionMore.Reasoning)
	}
	t := trajectory.Usage{Prompt: int64(max(u.Prompt, u.Input)), Completion: int64(max(u.Completion, u.Output)), Reasoning: int64(reasoning), Cached: int64(cached)}
	if u.Cost.known {
		t.Cost, t.CostKnown = u.Cost.v, true
		if u.BYOK && u.CostMore != nil && u.CostMore.Upstream.known {
			t.Cost += u.CostMore.Upstream.v
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
	open     *partial // the call to which a piece belongs that names none
	stray    bool     // a piece named the place of no call, or of one that was complete
	mixed    bool     // pieces of calls came in a way that cannot be told apart
	field    string   // where the server put reasoning
	finish   string
	model    string
	usage    *usage
	pieces   int
	deltas   bool // text or calls came in pieces
	messages bool // a choice had a message, or a piece of one
}

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Status: http.StatusOK, Err: fmt.Errorf(format, args...)}
}

// read takes one document: a whole answer or a piece.
func (a *answer) read(raw []byte) error {
	r, err := readReply(raw)
	if err != nil {
		return malformed("the answer is no JSON that we can read: %w (%.200q)", err, raw)
	}
	if present(r.Error) && len(r.Choices) == 0 || failure(r.Error) && !saysItself(r.Choices) {
		return wire.Classify(http.StatusOK, nil, raw, time.Time{})
	}
	if r.Model != "" {
		a.model = string(r.Model)
	}
	a.books(r.books())
	taken := false // a whole message of this document
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.Index.n != 0 {
			continue
		}
		whole := c.Delta == nil
		if whole && c.Message != nil && taken && !a.adds(c.Message) {
			continue // another answer, which nobody asked for
		}
		taken = taken || whole && c.Message != nil
		if whole {
			c.Delta = c.Message
		}
		if c.Delta != nil && len(c.Delta.Calls) == 0 && present(c.Calls) {
			if c.Delta.Calls, err = readCalls(c.Calls); err != nil {
				return malformed("calls beside the message: %w", err)
			}
		}
		if c.Delta == nil && present(c.Text) {
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
		if present(c.Error) || strings.EqualFold(string(c.Finish), "error") {
			return choiceError(c.Error, r.Error)
		}
	}
	return nil
}

// adds reports whether a second message holds the calls of the first, as servers send them
// that make a choice of each block of Anthropic's answers.
func (a *answer) adds(s *said) bool {
	return endingOf(a.finish) == endCalls && len(a.calls) == 0 && len(s.Calls) > 0 && !(present(s.Content) && string(s.Content) != `""`)
}

func choiceError(list ...json.RawMessage) error {
	for _, raw := range list {
		if present(raw) {
			return wire.Classify(http.StatusOK, nil, []byte(`{"error":`+string(raw)+`}`), time.Time{})
		}
	}
	return &Error{Kind: Unavailable, Status: http.StatusOK, Err: errors.New(`the answer ended with finish_reason "error"`)}
}

// failure reports whether the error of a document says that something failed: some servers
// write an empty one, or one that says that all went well, beside each answer.
func failure(raw json.RawMessage) bool {
	if !present(raw) {
		return false
	}
	var f struct {
		Message label `json:"message"`
		Type    label `json:"type"`
		Code    label `json:"code"`
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
		v, ok := loose(raw)
		return ok && v != 0 && v != 200
	}
}

// saysItself reports whether a choice says itself that it failed: that says more.
func saysItself(list []choice) bool {
	for i := range list {
		if present(list[i].Error) || strings.EqualFold(string(list[i].Finish), "error") {
			return true
		}
	}
	return false
}

// summed takes the whole message that some servers send behind the pieces of it: what came
// in pieces is not said twice, what did not is said now.
func (a *answer) summed(s *said) error {
	text, _, err := flat(s.Content)
	if err != nil {
		return malformed("content: %w", err)
	}
	so := strings.TrimSpace(a.content.String() + a.think.held)
	rest := *s
	if text = strings.TrimSpace(text); so != "" || text == "" {
		if !strings.HasSuffix(text, so) && text != "" {
			return malformed("the message at the end of the stream is not what its pieces say: %.80q", text)
		}
		rest.Content = nil
	}
	if len(a.calls) > 0 {
		rest.Calls, rest.Function = nil, nil
	}
	if a.thoughts.Len() > 0 || rest.Content == nil {
		rest.Reasoning, rest.ReasoningContent, rest.Details = nil, nil, nil
	}
	return a.said(&rest, true)
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

func (a *answer) said(s *said, whole bool) error {
	thought, _, err := flat(s.Reasoning)
	if err != nil {
		thought = "" // an object about reasoning, not its text
	}
	other, _, err := flat(s.ReasoningContent)
	if err != nil {
		return malformed("reasoning_content: %w", err)
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
			return malformed("reasoning_details: %w", err)
		}
		if thought == "" {
			thought = text
		}
	}
	text, inner, err := flat(s.Content)
	if err != nil {
		return malformed("content: %w", err)
	}
	refusal := ""
	if string(s.Refusal) != "false" { // a flag, where others have the text
		if refusal, _, err = flat(s.Refusal); err != nil {
			return malformed("refusal: %w", err)
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

// listOf is a list of reasoning details: an object is a list of one, what is neither is none.
func listOf(raw json.RawMessage) json.RawMessage {
	switch {
	case !present(raw) || raw[0] == '[':
	case raw[0] == '{' && len(raw) > 2:
		return slices.Concat([]byte{'['}, raw, []byte{']'})
	default:
		return nil
	}
	if !present(raw) {
		return nil
	}
	return raw
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
		a.on(Chunk{Content: mend(text), Reasoning: mend(thought), Tokens: 1})
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
			if v := d[k]; len(v) > 0 && v[0] == '"' {
				text.WriteString(unquote(v))
			}
		}
		if n := len(a.details); n > 0 && present(d["index"]) && bytes.Equal(a.details[n-1]["index"], d["index"]) && bytes.Equal(a.details[n-1]["type"], d["type"]) {
			join(a.details[n-1], d)
			continue
		}
		a.details = append(a.details, d)
	}
	return text.String(), nil
}

func join(to, from map[string]json.RawMessage) {
	for k, v := range from {
		if had := to[k]; (k == "text" || k == "summary" || k == "data") && len(v) > 0 && v[0] == '"' && len(had) > 0 && had[0] == '"' {
			v = slices.Concat(had[:len(had)-1], v[1:]) // as it is spelled: halves of a character find each other
		}
		if present(v) || !present(to[k]) {
			to[k] = v
		}
	}
}

// arguments reads a JSON string, or anything else as it is spelled.
func arguments(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	return unquote(raw), nil
}

// flat reads text: a string, null, or a list of texts and of parts with text. Parts of
// reasoning among them (Mistral, Anthropic) are inner.
func flat(raw json.RawMessage) (text, inner string, err error) {
	if !present(raw) {
		return "", "", nil
	}
	if raw[0] == '"' {
		return unquote(raw), "", nil
	}
	if raw[0] == '{' {
		raw = slices.Concat([]byte{'['}, raw, []byte{']'})
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", "", err
	}
	for _, p := range list {
		if len(p) > 0 && p[0] == '"' {
			text += unquote(p)
			continue
		}
		var part contentPart
		if err := json.Unmarshal(p, &part); err != nil {
			return "", "", err
		}
		outer, thought, err := part.read()
		if err != nil {
			return "", "", err
		}
		text, inner = text+outer, inner+thought
	}
	return text, inner, nil
}

// contentPart is a part of a content. What it says is in a member that its type names, or
// in text, content or value.
type contentPart struct {
	Type      label           `json:"type"`
	Text      partText        `json:"text"`
	Refusal   label           `json:"refusal"`
	Thinking  json.RawMessage `json:"thinking"`
	Reasoning json.RawMessage `json:"reasoning"`
	Reasons   json.RawMessage `json:"reasoning_content"`
	Summary   json.RawMessage `json:"summary"`
	Content   json.RawMessage `json:"content"`
	Value     label           `json:"value"`
	Thought   json.RawMessage `json:"thought"` // Gemini: true for reasoning
}

// read gives the text of a part, and its reasoning.
func (p *contentPart) read() (text, inner string, err error) {
	for _, raw := range []json.RawMessage{p.Thinking, p.Reasoning, p.Reasons, p.Summary} {
		thought, more, err := flat(raw)
		if err != nil {
			return "", "", err
		}
		if inner = thought + more; inner != "" {
			break
		}
	}
	kind := strings.ToLower(string(p.Type))
	text = string(p.Text)
	if text == "" && !strings.HasPrefix(kind, "tool") { // a tool's result is no text of the model
		more, thought, err := flat(p.Content)
		if err != nil {
			return "", "", err
		}
		text, inner = more, inner+thought
	}
	if text == "" {
		text = string(p.Value)
	}
	thinks := strings.HasPrefix(kind, "reasoning") || strings.HasPrefix(kind, "thinking") || kind == "thought" || string(p.Thought) == "true"
	if thinks && inner == "" {
		return string(p.Refusal), text, nil
	}
	if thinks {
		text = ""
	}
	return text + string(p.Refusal), inner, nil
}

// mark is what may come before a document or a stream.
const mark = "\ufeff"

// whole reads a plain answer; a stored stream is one too.
func (a *answer) whole(raw []byte) error {
	raw = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte(mark)))
	if isStream(raw) {
		for data, err := range wire.Events(bytes.NewReader(append(raw, "\n\n"...)), len(raw)+2) {
			var known *Error
			if errors.As(err, &known) {
				return err
			}
			if err != nil {
				return malformed("stored stream: %w", err)
			}
			if err := a.read(data); err != nil {
				return err
			}
		}
		if a.finish == "" {
			return malformed("the stream ended after %d pieces without a finish_reason", a.pieces)
		}
	} else {
		if err := a.read(raw); err != nil {
			return err
		}
		if !a.messages {
			return malformed("the answer has no choice with a message: %.200q", raw)
		}
	}
	a.end()
	return a.check()
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
	a.settle()
}

// check says whether the answer is one.
func (a *answer) check() error {
	if a.finish == "" && a.pieces == 0 {
		return malformed("the answer has no choice with a message")
	}
	return a.failed()
}

// failed is why an answer that came to its end is none all the same, or nil. The server
// has failed then, not the model.
func (a *answer) failed() error {
	switch {
	case endingOf(a.finish) == endCalls && len(a.calls) == 0:
		return malformed("the model server ended the answer with finish_reason %q and sent no call: it lost the call", a.finish)
	case a.mixed:
		return malformed("the model server sent the arguments of %d calls so that nobody can tell which belong to which", len(a.calls))
	}
	return endError(a.finish)
}

// delta is the finished message. cut: the answer was broken off, so that calls which
// cannot be read are left out.
func (a *answer) delta(cut bool) (trajectory.Delta, trajectory.Finish, error) {
	text := mend(a.content.String())
	thoughts := mend(a.thoughts.String())
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
		args := mend(p.args.String())
		if cut && !json.Valid([]byte(args)) {
			continue
		}
		m.Calls = append(m.Calls, trajectory.Call{ID: a.callID(m.Calls, i), Name: mend(p.name), Arguments: args})
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
	id := mend(a.calls[i].id)
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
	kind := endingOf(a.finish)
	switch {
	case cut:
		return trajectory.FinishAborted
	case kind == endLength:
		return trajectory.FinishLength
	case kind == endFilter:
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

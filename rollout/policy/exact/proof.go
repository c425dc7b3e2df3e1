package exact

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy/servers"
	"hermes/trajectory"
)

// Continuation is how a conversation goes on behind a sampled turn.
type Continuation string

// The ways to go on. Same: the bridged tokens are those of the whole conversation,
// rendered again. Differs: tokens are appended, but the template would write the past
// otherwise. Forks: the template rewrites the past and each turn begins a new sequence.
// Refused: the template cannot express it.
const (
	Same    Continuation = "appends"
	Differs Continuation = "appends, with a past that the template would write otherwise"
	Forks   Continuation = "forks"
	Refused Continuation = "cannot be expressed"
)

// Proof says what was found on the probe conversation.
type Proof struct {
	Family  string       `json:"family"`
	Stops   []string     `json:"stops"`   // the spellings of the tokens that end a turn
	Think   bool         `json:"think"`   // the prompt opens a block of reasoning
	Calls   bool         `json:"calls"`   // a call that the family writes is read back from its tokens
	Results Continuation `json:"results"` // a tool's result follows
	User    Continuation `json:"user"`    // a user's message follows
	Why     string       `json:"why,omitempty"`
}

// String is one line for people.
func (p Proof) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "family %s, ends with %s", p.Family, strings.Join(p.Stops, " or "))
	if p.Think {
		b.WriteString(", the prompt opens the reasoning")
	}
	if !p.Calls {
		b.WriteString(", writes no calls")
	}
	fmt.Fprintf(&b, "; tool results: %s; user messages: %s", p.Results, p.User)
	if p.Why != "" {
		b.WriteString(" (" + p.Why + ")")
	}
	return b.String()
}

// probeTool is the tool of the probe conversation.
func probeTool() []trajectory.ToolSpec {
	return []trajectory.ToolSpec{{Name: "lookup", Description: "Looks a word up.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)}}
}

// Prove takes a conversation with a tool call through template, tokenizer and parser,
// as a rollout would, without a server: the rendered text survives its tokens, a call
// that the family writes is read back from its tokens, and what follows a turn only
// appends. The error says which part does not fit which.
func Prove(p Parts) (Proof, error) {
	e := prepare(p)
	out := Proof{Family: p.Family.Name}
	for _, id := range e.stops {
		text, _ := p.Tokenizer.Token(id)
		out.Stops = append(out.Stops, text)
	}
	t := proof{e: e, cache: map[string][]trajectory.Token{}}
	opening, prompt, err := t.open(p.Tools)
	if err != nil {
		return out, err
	}
	out.Think = t.think
	turn, ids, calls, err := t.answer()
	if err != nil {
		return out, err
	}
	out.Calls = calls
	past := append(append([]trajectory.Message{}, opening...), turn)
	out.Results = Refused
	var why string
	if calls && t.tools != nil {
		result := trajectory.Text(trajectory.Tool, "bridge: a way over")
		result.CallID, result.Name = turn.Calls[0].ID, turn.Calls[0].Name
		out.Results, why = t.follow(past, prompt, ids, result)
		out.Why = why
	}
	out.User, why = t.follow(past, prompt, ids, trajectory.Text(trajectory.User, "And a ford?"))
	if out.Why == "" {
		out.Why = why
	}
	return out, nil
}

type proof struct {
	e     *exact
	cache map[string][]trajectory.Token
	tools []trajectory.ToolSpec
	think bool
}

// open renders the beginning of the probe conversation, with the run's tools and the probe's.
// The system message is left out where the template has no such role. So are tools, where the
// template has none and the run needs none.
func (t *proof) open(tools []trajectory.ToolSpec) ([]trajectory.Message, []trajectory.Token, error) {
	opening := []trajectory.Message{trajectory.Text(trajectory.System, "You look words up."), trajectory.Text(trajectory.User, "What is a “bridge”? Say it in ñ or 日本語.")}
	t.tools = slices.DeleteFunc(slices.Clone(tools), func(s trajectory.ToolSpec) bool { return s.Name == probeTool()[0].Name })
	t.tools = append(t.tools, probeTool()...)
	prompt, err := t.prompt(opening)
	if err == nil {
		return opening, prompt, nil
	}
	opening = opening[1:]
	prompt, with := t.prompt(opening)
	if with == nil {
		return opening, prompt, nil
	}
	t.tools = nil
	prompt, err = t.prompt(opening)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("prove the chat template: %w", with)
	case len(tools) > 0:
		return nil, nil, fmt.Errorf("prove the chat template with the run's %d tools: %w (it renders a conversation without tools: --toolsets none)", len(tools), with)
	}
	return opening, prompt, nil
}

// prompt renders and tokenizes, and checks that the tokens are the text.
func (t *proof) prompt(msgs []trajectory.Message) ([]trajectory.Token, error) {
	pieces, err := t.e.Renderer.Prompt(msgs, t.tools)
	if err != nil {
		return nil, err
	}
	t.think = opensThought(pieces)
	return t.tokens(nil, pieces, len(msgs))
}

func (t *proof) tokens(after *trajectory.Token, pieces []chattemplate.Piece, n int) ([]trajectory.Token, error) {
	lists, _, err := t.e.encode(t.cache, after, pieces, n)
	if err != nil {
		return nil, err
	}
	var ids []trajectory.Token
	for _, l := range lists {
		ids = append(ids, l...)
	}
	var want strings.Builder
	for _, p := range pieces {
		want.WriteString(p.Text)
	}
	got, err := t.e.Tokenizer.Decode(ids)
	if err != nil {
		return nil, err
	}
	if fold(got) != fold(want.String()) {
		return nil, fmt.Errorf("the tokenizer does not give the template's text back: %.120q became %.120q", want.String(), got)
	}
	return ids, nil
}

// fold forgets white space, which some tokenizers take into their control tokens.
func fold(s string) string { return strings.Join(strings.Fields(s), "") }

// answer writes a turn as the family would and reads it back from its tokens.
func (t *proof) answer() (trajectory.Message, []trajectory.Token, bool, error) {
	e := t.e
	text := e.Family.Format(parsers.Parsed{Calls: []parsers.Call{{ID: "call_0", Name: "lookup", Arguments: `{"word": "bridge"}`}}})
	ids, err := e.Tokenizer.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		return trajectory.Message{}, nil, false, fmt.Errorf("tokenize a call of the family %s: %w", e.Family.Name, err)
	}
	s := e.Family.New(e.options(t.tools, false, 0, "probe"))
	if _, err := e.feed(s, ids, -1); err != nil {
		return trajectory.Message{}, nil, false, fmt.Errorf("decode a call of the family %s: %w", e.Family.Name, err)
	}
	m := message(s.Finish(false))
	if text == "" { // a family without calls
		m = trajectory.Text(trajectory.Assistant, "A way over.")
		ids, err = e.Tokenizer.Encode("A way over.", tokenizer.Options{})
		return m, append(ids, e.stops[0]), false, err
	}
	var args struct{ Word string }
	if len(m.Calls) != 1 || m.Calls[0].Name != "lookup" || json.Unmarshal([]byte(m.Calls[0].Arguments), &args) != nil || args.Word != "bridge" {
		return m, nil, false, fmt.Errorf("the family %s does not read its own call back from the tokens of this tokenizer: %q gave %d calls; name the model's family with --family", e.Family.Name, text, len(m.Calls))
	}
	return m, append(ids, e.stops[0]), true, nil
}

// follow goes on behind a turn and compares with the whole conversation, rendered again.
func (t *proof) follow(past []trajectory.Message, prompt, answer []trajectory.Token, next trajectory.Message) (Continuation, string) {
	last := answer[len(answer)-1]
	pieces, err := t.e.Renderer.Bridge(past, t.e.ending(last), []trajectory.Message{next}, t.tools)
	if errors.Is(err, chattemplate.ErrRewrites) {
		return Forks, err.Error()
	}
	if err != nil {
		return Refused, err.Error()
	}
	bridge, err := t.tokens(&last, pieces, 1)
	if err != nil {
		return Refused, err.Error()
	}
	sum := append(append(append([]trajectory.Token{}, prompt...), answer...), bridge...)
	whole, err := t.prompt(append(append([]trajectory.Message{}, past...), next))
	if err != nil {
		return Differs, err.Error()
	}
	at := servers.FirstDifference(sum, whole)
	if at == len(sum) && at == len(whole) {
		return Same, ""
	}
	text, _ := t.e.Tokenizer.Decode(whole[max(0, at-8):min(len(whole), at+8)])
	return Differs, fmt.Sprintf("from token %d on the template would write %q", at, text)
}

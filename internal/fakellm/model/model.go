// Package model is the scripted model of a fake server: what it answers to a conversation, how
// that looks as text and as token ids, and how long it takes.
//
// It knows no HTTP. An [Ask] is what a request wants of the model, an [Answer] is what the server
// writes in one of its forms. Whatever is random is drawn from a seed.
//
// A [Model] is not changed after [New] and is safe for concurrent use.
package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Model says what its scripts have.
type Model struct {
	scripts  []Script
	fallback []Turn
	markup   Markup
	tok      Tokenizer
	faults   []string
	bytes    bool // tok is [Bytes]
}

// New returns a model of scripts, tried in order against the first user message, and the turns
// for a conversation that none of them matches (nil: those of the built-in agent). Faults are
// the names that turns may have. An error names the script that makes no sense.
func New(scripts []Script, fallback []Turn, m Markup, tok Tokenizer, faults []string) (*Model, error) {
	for i := range scripts {
		if err := scripts[i].validate(faults); err != nil {
			return nil, fmt.Errorf("script %d: %w", i+1, err)
		}
	}
	_, bytes := tok.(Bytes)
	return &Model{scripts: scripts, fallback: fallback, markup: m, tok: tok, faults: faults, bytes: bytes}, nil
}

// Ask is a request for an answer. Slices are read only.
type Ask struct {
	Talk   Talk
	Script []byte // raw JSON list of turns, in place of the model's scripts

	// Chat: messages in, a message with calls out. Else ids in, ids out.
	Chat     bool
	Messages []byte // raw JSON
	Tools    []byte // raw JSON
	NoTools  bool   // tool_choice "none"
	Must     string // tool_choice: the function that is to be called; "*": any; empty: as the model likes
	Exact    bool   // the ids of a chat are needed, not only their number

	IDs []int32 // the prompt

	Stop      []string
	MaxTokens int // -1: not limited
}

// Answer is one turn with everything filled in.
type Answer struct {
	Content, Reasoning string
	Calls              []AnswerCall
	Finish             string
	Delay              time.Duration

	PromptIDs []int32 // with token ids only
	IDs       []int32 // likewise; the end mark included
	Text      string  // forms that answer with text
	Out       int     // tokens of the answer
	Prompt    int     // tokens of the prompt
	Thought   int     // tokens of the reasoning among Out
}

// AnswerCall is a tool call of an answer; its arguments are text.
type AnswerCall struct{ ID, Name, Args string }

// Turn picks what the model says, when it answered the same request so many times before. An
// error is the request's fault.
func (m *Model) Turn(q *Ask, answered int) (Turn, error) {
	t, err := m.scripted(q)
	if err != nil {
		return t, err
	}
	if answered > 0 && len(t.Again) > 0 {
		t = t.Again[min(answered, len(t.Again))-1]
	}
	return q.obey(t)
}

func (m *Model) scripted(q *Ask) (Turn, error) {
	if q.Script != nil {
		return nthRaw(q.Script, q.Talk.Turns, m.faults)
	}
	if len(m.scripts) > 0 {
		task := q.Talk.task()
		for i := range m.scripts {
			if m.scripts[i].matches(task) {
				return nth(m.scripts[i].Turns, q.Talk.Turns), nil
			}
		}
	}
	if m.fallback != nil {
		return nth(m.fallback, q.Talk.Turns), nil
	}
	return agent(&q.Talk), nil
}

// obey makes a turn what the request's tool_choice allows: no calls, at least one, or one of
// a function. A call that the turn lacks is made, with the least arguments that the schema takes.
func (q *Ask) obey(t Turn) (Turn, error) {
	if !q.Chat {
		return t, nil
	}
	if q.NoTools && len(t.Calls) > 0 {
		t.Calls = nil
		if t.Content == "" {
			t.Content = "I may not use tools, so I answer from what was said: {{task}}"
		}
	}
	if q.Must == "" {
		return t, nil
	}
	tools := offered(q.Tools)
	at := slices.IndexFunc(tools, func(o offer) bool { return q.Must == "*" || q.Must == o.name })
	if at < 0 {
		return t, fmt.Errorf("tool_choice: the tools on offer do not have what it asks for (%q)", q.Must)
	}
	calls := slices.DeleteFunc(slices.Clone(t.Calls), func(c Call) bool { return q.Must != "*" && c.Name != q.Must })
	if len(calls) == 0 {
		t.Content, calls = "", []Call{call(tools[at].name, example(tools[at].schema))}
	}
	t.Calls = calls
	return t, nil
}

// Answer fills the templates of a turn, within the token limit of the request. The seed is for
// the ids of calls.
func (m *Model) Answer(q *Ask, t Turn, seed uint64) *Answer {
	same := func(v string) string { return v }
	a := &Answer{
		Content:   fill(t.Content, &q.Talk, same),
		Reasoning: fill(t.Reasoning, &q.Talk, same),
		Finish:    t.Finish,
		Delay:     time.Duration(t.DelayMS) * time.Millisecond,
	}
	for i, c := range t.Calls {
		id := c.ID
		if id == "" {
			id = callID(seed, i)
		}
		a.Calls = append(a.Calls, AnswerCall{ID: id, Name: c.Name, Args: c.arguments(&q.Talk)})
	}
	if a.Finish == "" {
		a.Finish = "stop"
		if len(a.Calls) > 0 && q.Chat {
			a.Finish = "tool_calls"
		}
	}
	for _, stop := range q.Stop {
		if i := strings.Index(a.Content, stop); stop != "" && i >= 0 {
			a.Content, a.Calls, a.Finish = a.Content[:i], nil, "stop"
		}
	}
	if q.Chat {
		m.measureChat(q, a)
	} else {
		m.measureText(q, a)
	}
	return a
}

func callID(seed uint64, i int) string {
	const n = 24
	b := append(make([]byte, 0, 5+n), "call_"...)
	x := seed + uint64(i)*0x9e3779b97f4a7c15
	for len(b) < 5+n {
		x = Mix(x + 1)
		for k := 0; k < 12; k++ {
			b = append(b, "0123456789abcdef"[x>>(4*k)&15])
		}
	}
	return string(b)
}

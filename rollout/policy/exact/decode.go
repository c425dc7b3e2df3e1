package exact

import (
	"slices"
	"strconv"
	"strings"

	"hermes/parsers"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy"
	"hermes/rollout/policy/servers"
	"hermes/trajectory"
)

// reading is what an answer says.
type reading struct {
	message trajectory.Message
	faults  []trajectory.Fault
	thought int // tokens that are reasoning
}

// read decodes and parses an answer. Only real special tokens are markers, never their
// spelling in text.
func (s *sampler) read(c servers.Completion) (r reading, err error) {
	p := s.p.Family.New(s.p.options(s.tools, s.think, s.calls, s.key+"/"+strconv.Itoa(s.turn)))
	ids := c.Tokens
	if n := len(ids); s.p.ends(ids) {
		ids = ids[:n-1]
	}
	starts, err := s.p.feed(p, ids, s.stopped(c))
	if err != nil {
		return r, err
	}
	if s.p.ends(c.Tokens) { // it is not fed, but must be a token all the same
		if _, ok := s.p.Tokenizer.Token(c.Tokens[len(c.Tokens)-1]); !ok {
			return r, s.p.outside(c.Tokens[len(c.Tokens)-1])
		}
	}
	out := p.Finish(c.Finish != trajectory.FinishStop)
	at := 0
	for _, span := range out.Spans {
		for at < len(starts) && starts[at] < span.End {
			if span.Kind == parsers.InReasoning {
				r.thought++
			}
			at++
		}
	}
	r.message = message(out)
	r.faults = policy.FaultsOf(out, func() string {
		text, _ := s.p.Tokenizer.Decode(ids) // it was decoded a moment ago
		return text
	})
	return r, nil
}

// stopped is the byte of an answer's text at which a stop string of the run begins that ended
// the answer; -1: none did. The text behind it is no content, as chat servers have it; its
// tokens stay.
func (s *sampler) stopped(c servers.Completion) int {
	n := len(c.Tokens)
	if len(s.o.Stop) == 0 || n == 0 || c.Finish != trajectory.FinishStop || s.p.ends(c.Tokens) {
		return -1
	}
	text, err := s.p.Tokenizer.Decode(c.Tokens)
	if err != nil {
		return -1 // feed tells it better
	}
	last, _ := s.p.Tokenizer.Token(c.Tokens[n-1])
	at := -1
	for _, stop := range s.o.Stop {
		i := strings.LastIndex(text, stop)
		if stop == "" || i < 0 || len(text)-i-len(stop) >= len(last) {
			continue // the server stops with the token that completes the string
		}
		if at < 0 || i < at {
			at = i
		}
	}
	return at
}

// message is what a parser read.
func message(out parsers.Parsed) trajectory.Message {
	m := trajectory.Text(trajectory.Assistant, out.Content)
	m.Reasoning = out.Reasoning
	for _, c := range out.Calls {
		m.Calls = append(m.Calls, trajectory.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, State: policy.StateOf(c.State)})
	}
	return m
}

// options are what a parser must know.
func (e *exact) options(tools []trajectory.ToolSpec, think bool, calls int, salt string) parsers.ParseOptions {
	return parsers.ParseOptions{Tools: tools, InReasoning: think, Dialect: e.Dialect, CallsBefore: calls, Salt: salt,
		Specials: e.spelled, Special: func(id trajectory.Token) (string, bool) {
			text, ok := e.special[id]
			return text, ok
		}}
}

// ending is the spelling of the control token that ended a turn, or empty.
func (e *exact) ending(last trajectory.Token) string {
	if !e.ends([]trajectory.Token{last}) {
		return ""
	}
	return e.special[last]
}

func (e *exact) ends(ids []trajectory.Token) bool {
	n := len(ids)
	if n == 0 {
		return false
	}
	return slices.Contains(e.stops, ids[n-1])
}

// feed decodes tokens into a parser and returns the byte at which each begins. A special
// token is handed over together with its text. The parser sees the first most bytes only,
// unless most is negative.
func (e *exact) feed(p parsers.Stream, ids []trajectory.Token, most int) ([]int, error) {
	s := e.Tokenizer.Stream(tokenizer.StreamOptions{})
	starts := make([]int, len(ids))
	size := 0
	var held []trajectory.Token // special tokens whose text did not come yet
	give := func(text string) {
		if most >= 0 && size+len(text) > most {
			keep := max(0, most-size)
			size += len(text) - keep
			text = text[:keep]
		}
		if text == "" {
			return
		}
		size += len(text)
		n := 0
		for n < len(held) && strings.Contains(text, e.special[held[n]]) {
			n++
		}
		p.Feed(text, held[:n])
		held = held[n:]
	}
	for i, id := range ids {
		starts[i] = size
		if e.isSpecial(id) {
			held = append(held, id)
		}
		text, err := s.Push(id)
		if err != nil && !e.padding(id) {
			return nil, e.outside(id)
		}
		give(text)
	}
	give(s.Finish())
	return starts, nil
}

func (e *exact) isSpecial(id trajectory.Token) bool {
	if id < e.lowest || id > e.highest {
		return false
	}
	_, ok := e.special[id]
	return ok
}

// padding says that an id is one with which a model's output was filled up: it can be
// sampled, and has no text.
func (e *exact) padding(id trajectory.Token) bool {
	_, known := e.Tokenizer.Token(id)
	return !known && id >= 0 && int(id) < e.Vocab
}

func (e *exact) outside(id trajectory.Token) error {
	return policy.Inexactf("token %d is not in the tokenizer's vocabulary of %d: the server runs another model, or --tokenizer names the wrong one", id, e.Tokenizer.Size())
}

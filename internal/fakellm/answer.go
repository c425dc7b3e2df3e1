package fakellm

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// answer is one turn with everything filled in.
type answer struct {
	content, reasoning string
	calls              []answerCall
	finish             string
	delay              time.Duration

	promptIDs []int32 // with token ids only
	ids       []int32 // likewise; the end mark included
	text      string  // forms that answer with text
	out       int     // tokens of the answer
	prompt    int     // tokens of the prompt
	thought   int     // tokens of the reasoning among out
}

type answerCall struct{ id, name, args string }

// turn picks what the model says.
func (s *Server) turn(q *request, before tally) (Turn, error) {
	t, err := s.scripted(q)
	if n := int(before.answered); err == nil && n > 0 && len(t.Again) > 0 {
		t = t.Again[min(n, len(t.Again))-1]
	}
	return t, err
}

func (s *Server) scripted(q *request) (Turn, error) {
	if q.script != nil {
		return nthRaw(q.script, q.talk.turns)
	}
	if len(s.opt.Scripts) > 0 {
		task := q.talk.task()
		for i := range s.opt.Scripts {
			if s.opt.Scripts[i].matches(task) {
				return nth(s.opt.Scripts[i].Turns, q.talk.turns), nil
			}
		}
	}
	if s.opt.Default != nil {
		return nth(s.opt.Default, q.talk.turns), nil
	}
	return agent(&q.talk), nil
}

// fill makes the answer of a turn, within the token limit of the request.
func (s *Server) fill(q *request, t Turn, dig digest) *answer {
	same := func(v string) string { return v }
	a := &answer{
		content:   fill(t.Content, &q.talk, same),
		reasoning: fill(t.Reasoning, &q.talk, same),
		finish:    t.Finish,
		delay:     time.Duration(t.DelayMS) * time.Millisecond,
	}
	for i, c := range t.Calls {
		id := c.ID
		if id == "" {
			id = callID(dig, i)
		}
		a.calls = append(a.calls, answerCall{id: id, name: c.Name, args: c.arguments(&q.talk)})
	}
	if a.finish == "" {
		a.finish = "stop"
		if len(a.calls) > 0 && q.form == formChat {
			a.finish = "tool_calls"
		}
	}
	for _, stop := range q.stop {
		if i := strings.Index(a.content, stop); stop != "" && i >= 0 {
			a.content, a.calls, a.finish = a.content[:i], nil, "stop"
		}
	}
	if q.form == formChat {
		s.measureChat(q, a)
	} else {
		s.measureText(q, a)
	}
	return a
}

func callID(dig digest, i int) string {
	const n = 24
	b := append(make([]byte, 0, 5+n), "call_"...)
	x := dig.low() + uint64(i)*0x9e3779b97f4a7c15
	for len(b) < 5+n {
		x = mix(x + 1)
		for k := 0; k < 12; k++ {
			b = append(b, hexDigits[x>>(4*k)&15])
		}
	}
	return string(b)
}

// rest is what is left to say of an answer, as text and as ids.
func (s *Server) rest(q *request, a *answer) (string, []int32) {
	m, tok := s.markup, s.opt.Tokenizer
	whole := []string{m.write(a, false), m.ThinkOpen + m.write(a, true)}
	begun := after(q.ids, tok.Encode(m.Assistant))
	if len(begun) == 0 {
		return whole[0], tok.Encode(whole[0])
	}
	text := tok.Decode(begun)
	for _, w := range whole {
		if ids := tok.Encode(w); len(ids) >= len(begun) && slices.Equal(ids[:len(begun)], begun) {
			return tok.Decode(ids[len(begun):]), ids[len(begun):]
		}
		if left, ok := strings.CutPrefix(w, text); ok {
			return left, tok.Encode(left)
		}
	}
	return whole[0], tok.Encode(whole[0])
}

// after is what follows the last place of mark in ids.
func after(ids, mark []int32) []int32 {
	for i := len(ids) - len(mark); i >= 0 && len(mark) > 0; i-- {
		if slices.Equal(ids[i:i+len(mark)], mark) {
			return ids[i+len(mark):]
		}
	}
	return nil
}

// measureChat counts tokens and cuts an answer that is too long. The counts are those of
// the server's tokenizer, whether the request asks for the ids or not.
func (s *Server) measureChat(q *request, a *answer) {
	exact := q.returnIDs || q.logprobs
	if exact {
		a.promptIDs = s.opt.Tokenizer.Encode(s.markup.render(q.messages, q.tools))
		a.prompt = len(a.promptIDs)
	} else {
		a.prompt = s.tokensOf(q)
	}
	for first := true; ; first = false {
		text := s.markup.write(a, false)
		a.out = s.count(text)
		if a.finish != "length" {
			a.out++ // the end mark
		}
		size := a.size()
		if q.maxTokens < 0 || a.out <= q.maxTokens || size == 0 && !first {
			if exact {
				a.ids = s.opt.Tokenizer.Encode(text)
			}
			break
		}
		if first && a.out == q.maxTokens+1 {
			a.cut(size) // only the end mark is one too many
			continue
		}
		a.cut(min(size-1, size*q.maxTokens/a.out+1))
	}
	if exact && a.finish != "length" {
		a.ids = append(a.ids, s.opt.Tokenizer.End())
	}
	a.thought = min(s.count(a.reasoning), a.out)
}

func (a *answer) size() int {
	n := len(a.content) + len(a.reasoning)
	for _, c := range a.calls {
		n += len(c.name) + len(c.args)
	}
	return n
}

// cut keeps the first n bytes of what the model says, as a token limit does.
func (a *answer) cut(n int) {
	a.finish = "length"
	take := func(s string) string {
		s2 := s
		if len(s2) > n {
			s2 = s2[:max(n, 0)]
			for len(s2) > 0 && !utf8.ValidString(s2[max(0, len(s2)-utf8.UTFMax):]) && !utf8.RuneStart(s[len(s2)]) {
				s2 = s2[:len(s2)-1]
			}
		}
		n -= len(s)
		return s2
	}
	a.reasoning, a.content = take(a.reasoning), take(a.content)
	for i := range a.calls {
		if n < len(a.calls[i].name) {
			a.calls = a.calls[:i]
			return
		}
		n -= len(a.calls[i].name)
		a.calls[i].args = take(a.calls[i].args)
	}
}

// measureText writes the answer as sampled ids. What the prompt holds of it already, be
// it the mark that opens the reasoning or the beginning of an aborted answer, is not
// written again.
func (s *Server) measureText(q *request, a *answer) {
	a.promptIDs, a.prompt = q.ids, len(q.ids)
	a.text, a.ids = s.rest(q, a)
	if a.finish != "length" {
		a.ids = append(a.ids, s.opt.Tokenizer.End())
	}
	if q.maxTokens >= 0 && len(a.ids) > q.maxTokens {
		a.ids, a.finish = a.ids[:q.maxTokens], "length"
		a.text = s.opt.Tokenizer.Decode(a.ids)
	}
	a.out = len(a.ids)
}

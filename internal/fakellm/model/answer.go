package model

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// rest is what is left to say of an answer, as text and as ids.
func (m *Model) rest(q *Ask, a *Answer) (string, []int32) {
	tok := m.tok
	whole := []string{m.markup.write(a, false), m.markup.ThinkOpen + m.markup.write(a, true)}
	begun := after(q.IDs, tok.Encode(m.markup.Assistant))
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
// the model's tokenizer, whether the request asks for the ids or not.
func (m *Model) measureChat(q *Ask, a *Answer) {
	if q.Exact {
		a.PromptIDs = m.tok.Encode(m.markup.Render(q.Messages, q.Tools))
		a.Prompt = len(a.PromptIDs)
	} else {
		a.Prompt = m.tokensOf(q)
	}
	for first := true; ; first = false {
		text := m.markup.write(a, false)
		a.Out = m.count(text)
		if a.Finish != "length" {
			a.Out++ // the end mark
		}
		size := a.size()
		if q.MaxTokens < 0 || a.Out <= q.MaxTokens || size == 0 && !first {
			if q.Exact {
				a.IDs = m.tok.Encode(text)
			}
			break
		}
		if first && a.Out == q.MaxTokens+1 {
			a.cut(size) // only the end mark is one too many
			continue
		}
		a.cut(min(size-1, size*q.MaxTokens/a.Out+1))
	}
	if q.Exact && a.Finish != "length" {
		a.IDs = append(a.IDs, m.tok.End())
	}
	a.Thought = min(m.count(a.Reasoning), a.Out)
}

func (a *Answer) size() int {
	n := len(a.Content) + len(a.Reasoning)
	for _, c := range a.Calls {
		n += len(c.Name) + len(c.Args)
	}
	return n
}

// cut keeps the first n bytes of what the model says, as a token limit does.
func (a *Answer) cut(n int) {
	a.Finish = "length"
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
	a.Reasoning, a.Content = take(a.Reasoning), take(a.Content)
	for i := range a.Calls {
		if n < len(a.Calls[i].Name) {
			a.Calls = a.Calls[:i]
			return
		}
		n -= len(a.Calls[i].Name)
		a.Calls[i].Args = take(a.Calls[i].Args)
	}
}

// measureText writes the answer as sampled ids. What the prompt holds of it already, be
// it the mark that opens the reasoning or the beginning of an aborted answer, is not
// written again.
func (m *Model) measureText(q *Ask, a *Answer) {
	a.PromptIDs, a.Prompt = q.IDs, len(q.IDs)
	a.Text, a.IDs = m.rest(q, a)
	if a.Finish != "length" {
		a.IDs = append(a.IDs, m.tok.End())
	}
	if q.MaxTokens >= 0 && len(a.IDs) > q.MaxTokens {
		a.IDs, a.Finish = a.IDs[:q.MaxTokens], "length"
		a.Text = m.tok.Decode(a.IDs)
	}
	a.Out = len(a.IDs)
}

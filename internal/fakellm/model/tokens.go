package model

import "strings"

// Tokenizer turns text into ids and back. End is appended to a finished answer.
type Tokenizer interface {
	Encode(text string) []int32
	Decode(ids []int32) string
	End() int32
}

// Bytes is a [Tokenizer] with one id a byte; 256 is the end of a message.
type Bytes struct{}

// Encode returns the bytes of text as ids; "<|im_end|>" becomes 256.
func (Bytes) Encode(text string) []int32 {
	ids := make([]int32, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] == '<' && len(text)-i >= len(ChatML.End) && text[i:i+len(ChatML.End)] == ChatML.End {
			ids, i = append(ids, 256), i+len(ChatML.End)
			continue
		}
		ids, i = append(ids, int32(text[i])), i+1
	}
	return ids
}

// Decode returns the text of ids; unknown ids are left out.
func (Bytes) Decode(ids []int32) string {
	b := make([]byte, 0, len(ids))
	for _, id := range ids {
		switch {
		case id >= 0 && id < 256:
			b = append(b, byte(id))
		case id == 256:
			b = append(b, ChatML.End...)
		}
	}
	return string(b)
}

// End returns 256.
func (Bytes) End() int32 { return 256 }

// Count returns how many ids Encode makes of text.
func (Bytes) Count(text string) int {
	return len(text) - (len(ChatML.End)-1)*strings.Count(text, ChatML.End)
}

// count is how many tokens text has.
func (m *Model) count(text string) int {
	if m.bytes {
		return Bytes{}.Count(text)
	}
	return len(m.tok.Encode(text))
}

// tokensOf is how many tokens the messages and tools of a chat have. With one id a
// byte nothing is rendered for it: this is the floor under which no load test comes.
func (m *Model) tokensOf(q *Ask) int {
	if m.bytes && m.markup == ChatML {
		return m.markup.weigh(q.Messages, q.Tools)
	}
	return m.count(m.markup.Render(q.Messages, q.Tools))
}

// Mix is the finalizer of splitmix64.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

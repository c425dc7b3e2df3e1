package tokenizer

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/parsers/tokenizer/unidata"
	"hermes/trajectory"
)

// addedToken is a token beside the model's vocabulary, with the flags of tokenizer.json.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// matcher finds added tokens: leftmost, then longest.
type matcher struct {
	nodes  []trieNode
	tokens []addedToken
	hidden map[string]bool // contents that are special
}

type trieNode struct {
	next  map[byte]int32
	token int32 // index into tokens, -1: none
}

func newMatcher(hidden map[string]bool) *matcher {
	return &matcher{nodes: []trieNode{{token: -1}}, hidden: hidden}
}

func (m *matcher) add(pattern string, t addedToken) {
	at := int32(0)
	for i := range len(pattern) {
		n := &m.nodes[at]
		to, ok := n.next[pattern[i]]
		if !ok {
			if n.next == nil {
				n.next = map[byte]int32{}
			}
			to = int32(len(m.nodes))
			n.next[pattern[i]] = to
			m.nodes = append(m.nodes, trieNode{token: -1})
		}
		at = to
	}
	m.nodes[at].token = int32(len(m.tokens))
	m.tokens = append(m.tokens, t)
}

// longest returns the token that begins at text[i:] and its length.
func (m *matcher) longest(text string, i int) (int32, int) {
	at := int32(0)
	best := int32(-1)
	size := 0
	for k := i; k < len(text); k++ {
		to, ok := m.nodes[at].next[text[k]]
		if !ok {
			break
		}
		at = to
		if m.nodes[at].token >= 0 {
			best, size = m.nodes[at].token, k+1-i
		}
	}
	return best, size
}

// split cuts text into added tokens (id ≥ 0) and what lies between them (id -1), with the
// reference library's way of overlapping matches.
func (m *matcher) split(text string, special bool, plain map[string]bool, yield func(start, end int, id trajectory.Token)) {
	begin := 0
	if len(m.tokens) > 0 {
		root := m.firstBytes()
		for at := 0; at < len(text); {
			if !root[text[at]] {
				at++
				continue
			}
			k, size := m.longest(text, at)
			if k < 0 {
				at++
				continue
			}
			start, end := at, at+size
			at = end
			t := &m.tokens[k]
			if !special && m.hidden[t.Content] || plain[t.Content] || t.SingleWord && (wordBefore(text[:start]) || wordAfter(text[end:])) {
				continue
			}
			if t.LStrip {
				start = max(len(strings.TrimRightFunc(text[:start], unicode.IsSpace)), begin)
			}
			if t.RStrip {
				end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			if begin < start {
				yield(begin, start, -1)
			}
			yield(start, end, trajectory.Token(t.ID))
			begin = end
		}
	}
	if begin < len(text) {
		yield(begin, len(text), -1)
	}
}

func (m *matcher) firstBytes() (out [256]bool) {
	for b := range m.nodes[0].next {
		out[b] = true
	}
	return out
}

func wordBefore(s string) bool {
	c, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && unidata.Flags().Is(c, unidata.RustWord)
}

func wordAfter(s string) bool {
	c, n := utf8.DecodeRuneInString(s)
	return n > 0 && unidata.Flags().Is(c, unidata.RustWord)
}

// install puts the added tokens beside the model, with the ids that the file declares.
func (e *engine) install(tokens []addedToken) error {
	e.special, e.added = map[trajectory.Token]bool{}, map[trajectory.Token]Special{}
	e.addedID, e.shown = map[string]trajectory.Token{}, map[trajectory.Token]string{}
	hidden := map[string]bool{}
	e.raw, e.normed = newMatcher(hidden), newMatcher(hidden)
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		if t.ID < 0 || t.ID >= maxVocabulary || len(t.Content) > maxToken {
			return malformed("added token %.80q of %d bytes has id %d", t.Content, len(t.Content), t.ID)
		}
		id := trajectory.Token(t.ID)
		if have, ok := e.ID(t.Content); ok && have != id {
			return malformed("added token %q has id %d, but the vocabulary says %d", t.Content, id, have)
		}
		if have, ok := e.Token(id); ok && have != t.Content {
			return malformed("added token %q has id %d, which is %q", t.Content, id, have)
		}
		hidden[t.Content] = hidden[t.Content] || t.Special
		e.added[id], e.addedID[t.Content] = Special{id, t.Content, hidden[t.Content]}, id
		e.special[id] = hidden[t.Content]
		e.size = max(e.size, int(id)+1)
		if !t.Normalized {
			e.raw.add(t.Content, t)
			continue
		}
		pattern := t.Content
		for _, n := range e.normal {
			var err error
			pattern, _, err = n.apply(pattern, true)
			if err != nil {
				return err
			}
		}
		if pattern == "" {
			return malformed("added token %q is empty once normalized", t.Content)
		}
		if pattern != t.Content {
			e.shown[id] = pattern
		}
		e.normed.add(pattern, t)
	}
	return nil
}

// Specials implements [Tokenizer].
func (e *engine) Specials() []Special {
	return slices.SortedFunc(maps.Values(e.added), func(a, b Special) int { return cmp.Compare(a.ID, b.ID) })
}

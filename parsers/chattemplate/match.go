package chattemplate

import (
	"slices"
	"strings"

	"hermes/internal/late"
)

// matcher finds control tokens in text, the longest at each place.
type matcher struct {
	first [256]bool   // bytes that begin a token
	class [256]uint16 // column of a byte; 0: in no token
	width int         // columns, the first says whether a token ends
	next  []int32     // table of nodes: the row of the node after a byte, 0 is none; the root is row 0
	leaf  []bool      // nothing goes on
	only  int         // the byte that begins all tokens; -1: there are several
}

// newMatcher leaves out what is only white space: that is text, whatever a
// vocabulary calls it.
func newMatcher(tokens []string) *matcher {
	m := &matcher{width: 1, only: -1}
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(tok string) bool { return strings.TrimSpace(tok) == "" })
	for _, tok := range tokens {
		m.first[tok[0]] = true
		for i := range len(tok) {
			if m.class[tok[i]] == 0 {
				m.class[tok[i]] = uint16(m.width)
				m.width++
			}
		}
	}
	for _, tok := range tokens {
		m.only = int(tok[0])
		if m.only != int(tokens[0][0]) {
			m.only = -1
			break
		}
	}
	m.row()
	for _, tok := range tokens {
		at := int32(0)
		for i := range len(tok) {
			m.leaf[at] = false
			edge := int(at)*m.width + int(m.class[tok[i]])
			if m.next[edge] == 0 {
				row := m.row()
				m.next[edge] = row
			}
			at = m.next[edge]
		}
		m.next[int(at)*m.width] = 1
	}
	return m
}

// row adds a node.
func (m *matcher) row() int32 {
	m.next = append(m.next, make([]int32, m.width)...)
	m.leaf = append(m.leaf, true)
	return int32(len(m.leaf) - 1)
}

// match is the length of the longest token at the start of s. partial reports
// that s ended where a longer one could go on.
func (m *matcher) match(s string) (n int, partial bool) {
	at := 0
	for i := range len(s) {
		c := int(m.class[s[i]])
		if c == 0 {
			return n, false
		}
		at = int(m.next[at*m.width+c])
		if at == 0 {
			return n, false
		}
		if m.next[at*m.width] != 0 {
			n = i + 1
		}
	}
	return n, !m.leaf[at]
}

// find lists the tokens in s as [start, end), leftmost and longest first.
func (m *matcher) find(s string) [][2]int {
	out := make([][2]int, 0, min(16, len(s)))
	for i := 0; i < len(s); {
		if m.only >= 0 { // most vocabularies begin them all with <
			at := strings.IndexByte(s[i:], byte(m.only))
			if at < 0 {
				break
			}
			i += at
		}
		if m.first[s[i]] {
			if n, _ := m.match(s[i:]); n > 0 {
				out = append(out, [2]int{i, i + n})
				i += n
				continue
			}
		}
		i++
	}
	return out
}

// has reports whether tok is a token.
func (m *matcher) has(tok string) bool {
	n, _ := m.match(tok)
	return n == len(tok) && n > 0
}

var spelled = late.Regexp(`<[|｜][^\s<>'"{}]{1,60}?[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|</?s>|<(?:start|end)_of_\w+>|<(?:start|end)_function_\w+>|<escape>|\[/?[A-Z_]{3,40}\]|\[\|[a-z]+\|\]|</?(?:seed:|minimax:)?(?:tool_call|tool_calls|think|tool_response|longcat_tool_call)>|<seed:[a-z_]+>|<SPECIAL_\d+>|</?TOOL_?CALL>`)

// Spellings guesses the control tokens that a template prints by their usual
// shapes, for a template without a tokenizer.
func Spellings(source string) []string {
	all := spelled.FindAllString(source, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

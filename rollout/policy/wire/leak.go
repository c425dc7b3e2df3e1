package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"hermes/internal/address"
)

// minKey and minSigns are how long a key is and how many different characters it has, at
// least, before it is looked for in answers. What is given in the place of a key where the
// server wants none (EMPTY, none, sk-no-key-required, token-abc123) is shorter, or holds no
// digit: an answer may hold such a word honestly.
const (
	minKey   = 16
	minSigns = 8
)

// telling reports whether this key is not written by chance.
func telling(key string) bool {
	signs := []rune(key)
	slices.Sort(signs)
	return len(key) >= minKey && len(slices.Compact(signs)) >= minSigns &&
		strings.ContainsFunc(key, unicode.IsDigit) && strings.ContainsFunc(key, unicode.IsLetter)
}

// Leaks finds the keys of the requests in answers, in each spelling of [address.Spellings].
// nil finds nothing. It never changes, and is safe for concurrent use.
type Leaks struct {
	spelled []spelled
	first   [256]bool // the bytes with which one begins
	least   int       // length of the shortest
}

type spelled struct {
	text string
	raw  []byte
	name string
}

// newLeaks looks for the keys that are not written by chance; names are those of their variables.
func newLeaks(keys, names []string) *Leaks {
	l := &Leaks{}
	for i, key := range keys {
		if !telling(key) {
			continue
		}
		name := ""
		if i < len(names) {
			name = names[i]
		}
		for _, text := range slices.Compact(slices.Sorted(slices.Values(address.Spellings(key)))) {
			l.spelled = append(l.spelled, spelled{text, []byte(text), name})
			l.first[text[0]] = true
			if l.least == 0 || len(text) < l.least {
				l.least = len(text)
			}
		}
	}
	if l.spelled == nil {
		return nil
	}
	return l
}

// Check is an *Error of the kind Leaked when one of the texts holds a key.
func (l *Leaks) Check(texts ...string) error {
	if l == nil {
		return nil
	}
	for _, text := range texts {
		name, found := l.find(text)
		if !found && (strings.Contains(text, `\/`) || strings.Contains(text, `\u00`)) {
			name, found = l.find(unescaped(text))
		}
		if found {
			if name != "" {
				name = " (" + name + ")"
			}
			return &Error{Kind: Leaked, Err: fmt.Errorf("%w%s; nothing of it was kept: do not trust this server, and replace the key", errLeaked, name)}
		}
	}
	return nil
}

var errLeaked = errors.New("the server answered with the key of the request")

func (l *Leaks) find(text string) (name string, found bool) {
	if len(text) < l.least {
		return "", false
	}
	for _, s := range l.spelled {
		if strings.Contains(text, s.text) {
			return s.name, true
		}
	}
	return "", false
}

// Tail is how many bytes at the end of text may be the beginning of a key: who shows an
// answer while it comes waits with them for what follows.
func (l *Leaks) Tail(text string) int {
	if l == nil {
		return 0
	}
	for i := range len(text) {
		if !l.first[text[i]] {
			continue
		}
		for _, s := range l.spelled {
			if strings.HasPrefix(s.text, text[i:]) {
				return len(text) - i
			}
		}
	}
	return 0
}

// unescaped is text without the escapes of JSON for ASCII.
func unescaped(text string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		text = text[i:]
		switch {
		case strings.HasPrefix(text, `\/`):
			b.WriteByte('/')
			text = text[2:]
		case len(text) >= 6 && strings.HasPrefix(text, `\u00`) && hexDigit(text[4]) && hexDigit(text[5]):
			b.WriteByte(unhex(text[4])<<4 | unhex(text[5]))
			text = text[6:]
		default:
			b.WriteByte('\\')
			text = text[1:]
		}
	}
}

func hexDigit(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&7 + 9
}

// raw is Check for a whole answer.
func (l *Leaks) raw(answer []byte) error {
	if l == nil {
		return nil
	}
	escaped := bytes.Contains(answer, []byte(`\/`)) || bytes.Contains(answer, []byte(`\u00`))
	if !escaped && !slices.ContainsFunc(l.spelled, func(s spelled) bool { return bytes.Contains(answer, s.raw) }) {
		return nil
	}
	return l.Check(string(answer))
}

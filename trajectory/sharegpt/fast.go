package sharegpt

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// walk writes JSON text as [value] does, in one pass and without a token for each value.
// What it does not expect (text that is no JSON, equal keys in an object, halves of
// surrogate pairs, invalid UTF-8) ends it, and is left to [value]. FuzzEmbed holds both to
// the same bytes.
type walk struct {
	s  string
	at int
	b  []byte
}

// appendWalked appends what value makes of s; false: nothing can be said about it.
func appendWalked(b []byte, s string) ([]byte, bool) {
	w := walk{s: s, b: b}
	ok := w.value(0)
	if w.space(); !ok || w.at != len(s) {
		return b, false
	}
	return w.b, true
}

func (w *walk) space() {
	for w.at < len(w.s) && (w.s[w.at] == ' ' || w.s[w.at] == '\n' || w.s[w.at] == '\t' || w.s[w.at] == '\r') {
		w.at++
	}
}

// next steps over white space and c, if that comes.
func (w *walk) next(c byte) bool {
	w.space()
	if w.at < len(w.s) && w.s[w.at] == c {
		w.at++
		return true
	}
	return false
}

func (w *walk) value(depth int) bool {
	w.space()
	if w.at == len(w.s) || depth > maxDepth {
		return false
	}
	switch c := w.s[w.at]; {
	case c == '"':
		w.at++
		return w.text()
	case c == '{':
		w.at++
		return w.object(depth)
	case c == '[':
		w.at++
		return w.array(depth)
	case c == '-' || '0' <= c && c <= '9':
		return w.number()
	}
	return w.word("true") || w.word("false") || w.word("null")
}

func (w *walk) word(word string) bool {
	if len(w.s)-w.at < len(word) || w.s[w.at:w.at+len(word)] != word {
		return false
	}
	w.at += len(word)
	w.b = append(w.b, word...)
	return true
}

func (w *walk) array(depth int) bool {
	w.b = append(w.b, '[')
	for first := true; ; first = false {
		if first && w.next(']') {
			break
		}
		if !first {
			w.b = append(w.b, ", "...)
		}
		if !w.value(depth + 1) {
			return false
		}
		if w.next(']') {
			break
		}
		if !w.next(',') {
			return false
		}
	}
	w.b = append(w.b, ']')
	return true
}

// manyKeys is from how many keys on an object is left to [value]: to find equal ones each is
// compared with all before it.
const manyKeys = 64

func (w *walk) object(depth int) bool {
	w.b = append(w.b, '{')
	var keys [manyKeys][2]int // where they lie in b
	for n := 0; ; n++ {
		if n == 0 && w.next('}') {
			break
		}
		if n == manyKeys {
			return false
		}
		if n > 0 {
			w.b = append(w.b, ", "...)
		}
		from := len(w.b)
		if !w.next('"') || !w.text() {
			return false
		}
		keys[n] = [2]int{from, len(w.b)}
		key := string(w.b[from:]) // stays on the stack where it is short
		for _, k := range keys[:n] {
			if string(w.b[k[0]:k[1]]) == key {
				return false
			}
		}
		w.b = append(w.b, ": "...)
		if !w.next(':') || !w.value(depth+1) {
			return false
		}
		if w.next('}') {
			break
		}
		if !w.next(',') {
			return false
		}
	}
	w.b = append(w.b, '}')
	return true
}

// number steps over a number of JSON's grammar.
func (w *walk) number() bool {
	from := w.at
	digits := func() bool {
		n := w.at
		for w.at < len(w.s) && '0' <= w.s[w.at] && w.s[w.at] <= '9' {
			w.at++
		}
		return w.at > n
	}
	is := func(set string) bool {
		if w.at < len(w.s) && (w.s[w.at] == set[0] || w.s[w.at] == set[1]) {
			w.at++
			return true
		}
		return false
	}
	is("--")
	zero := w.at < len(w.s) && w.s[w.at] == '0'
	whole := w.at
	if !digits() || zero && w.at > whole+1 {
		return false
	}
	if is("..") && !digits() {
		return false
	}
	if is("eE") {
		is("+-")
		if !digits() {
			return false
		}
	}
	w.b = append(w.b, number(w.s[from:w.at])...)
	return true
}

// text writes the string that begins behind its quotation mark.
func (w *walk) text() bool {
	w.b = append(w.b, '"')
	for {
		from := w.at
		for w.at < len(w.s) && plain(w.s[w.at]) {
			w.at++
		}
		w.b = append(w.b, w.s[from:w.at]...)
		if w.at == len(w.s) {
			return false
		}
		switch c := w.s[w.at]; {
		case c == '"':
			w.at++
			w.b = append(w.b, '"')
			return true
		case c == '\\':
			if !w.escape() {
				return false
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(w.s[w.at:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			w.b = append(w.b, w.s[w.at:w.at+n]...)
			w.at += n
		default: // a control character, which JSON does not allow
			return false
		}
	}
}

// escape writes the character that an escape means.
func (w *walk) escape() bool {
	if len(w.s)-w.at < 2 {
		return false
	}
	c := w.s[w.at+1]
	w.at += 2
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		w.b = append(w.b, '\\', c)
	case '/':
		w.b = append(w.b, '/')
	case 'u':
		if len(w.s)-w.at < 4 {
			return false
		}
		n, err := strconv.ParseUint(w.s[w.at:w.at+4], 16, 16)
		if err != nil || utf16.IsSurrogate(rune(n)) {
			return false
		}
		w.at += 4
		w.b = appendRune(w.b, rune(n))
	default:
		return false
	}
	return true
}

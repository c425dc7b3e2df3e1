// Package pyvalue reads the literals of Python and writes them as JSON text.
//
// Models write calls as Python and dictionaries as Python prints them. [Read] takes
// one literal from the beginning of a text and returns JSON that keeps the spelling
// of its numbers; JSON's own words true, false and null are read too. It is a
// function without state.
package pyvalue

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// ErrCut says that the text ends inside the literal; ErrSyntax that it is none.
var (
	ErrCut    = errors.New("the text ends inside the literal")
	ErrSyntax = errors.New("not a literal")
)

// maxDepth bounds nesting.
const maxDepth = 256

// Options loosen the reading. The zero value is Python's own grammar plus JSON words.
type Options struct {
	RawNewlines bool  // newlines may be inside ordinary strings
	PythonOnly  bool  // JSON words are refused
	NoSets      bool  // tuples and sets are refused
	ZeroPadded  bool  // 07 is 7
	JSONEscapes bool  // in strings, \/ is a slash, as in JSON
	Odd         *bool // set where a value is bytes, which become a text: JSON has none
}

// Read reads the literal at the beginning of text (blanks before it allowed) and
// returns it as JSON and the number of bytes read.
func Read(text string, o Options) (json string, n int, err error) {
	r := reader{text: text, o: o}
	err = r.value(0)
	return string(r.out), r.i, err
}

type reader struct {
	text string
	i    int
	o    Options
	out  []byte
	half bool // a string holds half of a surrogate pair
}

func (r *reader) space() {
	for r.i < len(r.text) {
		switch r.text[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

func (r *reader) peek() byte {
	if r.i < len(r.text) {
		return r.text[r.i]
	}
	return 0
}

func (r *reader) value(depth int) error {
	r.space()
	if r.i >= len(r.text) {
		return ErrCut
	}
	if depth > maxDepth {
		return ErrSyntax
	}
	switch c := r.text[r.i]; {
	case c == '[':
		return r.items(']', depth)
	case c == '(' && !r.o.NoSets:
		return r.items(')', depth)
	case c == '{':
		return r.braces(depth)
	case c == '"' || c == '\'':
		return r.strings()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return r.number()
	}
	return r.word()
}

func (r *reader) word() error {
	at := r.i
	for r.i < len(r.text) && isLetter(r.text[r.i]) {
		r.i++
	}
	w := r.text[at:r.i]
	if c := r.peek(); (c == '"' || c == '\'') && prefixes[strings.ToLower(w)] {
		r.i = at
		return r.strings()
	}
	switch w {
	case "True":
		w = "true"
	case "False":
		w = "false"
	case "None":
		w = "null"
	case "true", "false", "null":
		if r.o.PythonOnly {
			return ErrSyntax
		}
	default:
		if r.i == len(r.text) {
			for _, k := range []string{"True", "False", "None", "true", "false", "null"} {
				if strings.HasPrefix(k, w) {
					return ErrCut
				}
			}
		}
		return ErrSyntax
	}
	r.out = append(r.out, w...)
	return nil
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func (r *reader) items(closer byte, depth int) error {
	r.i++
	at := len(r.out)
	n := 0
	comma := false
	r.out = append(r.out, '[')
	for {
		r.space()
		if r.i >= len(r.text) {
			return ErrCut
		}
		if r.text[r.i] == closer {
			r.i++
			break
		}
		if n > 0 {
			r.out = append(r.out, ", "...)
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
		n++
		r.space()
		switch c := r.peek(); {
		case r.i >= len(r.text):
			return ErrCut
		case c == ',':
			comma = true
			r.i++
		case c != closer:
			return ErrSyntax
		}
	}
	if closer == ')' && n == 1 && !comma { // (x) is x
		r.out = append(r.out[:at], r.out[at+1:]...)
		return nil
	}
	r.out = append(r.out, ']')
	return nil
}

// braces reads a dictionary or a set.
func (r *reader) braces(depth int) error {
	r.i++
	at := len(r.out)
	n := 0
	set := false
	r.out = append(r.out, '{')
	for {
		r.space()
		if r.i >= len(r.text) {
			return ErrCut
		}
		if r.text[r.i] == '}' {
			r.i++
			break
		}
		if n > 0 {
			r.out = append(r.out, ", "...)
		}
		key := len(r.out)
		if err := r.value(depth + 1); err != nil {
			return err
		}
		r.space()
		if r.i >= len(r.text) {
			return ErrCut
		}
		if n == 0 && r.text[r.i] != ':' && !r.o.NoSets {
			set = true
		}
		if !set {
			if err := r.entry(key, depth); err != nil {
				return err
			}
		}
		n++
		r.space()
		switch c := r.peek(); {
		case r.i >= len(r.text):
			return ErrCut
		case c == ',':
			r.i++
		case c != '}':
			return ErrSyntax
		}
	}
	if set {
		r.out[at] = '['
		r.out = append(r.out, ']')
		return nil
	}
	r.out = append(r.out, '}')
	return nil
}

// entry reads what follows a key; keys that are no strings become strings.
func (r *reader) entry(key, depth int) error {
	if r.text[r.i] != ':' {
		return ErrSyntax
	}
	r.i++
	switch r.out[key] {
	case '[', '{':
		return ErrSyntax
	case '"':
	default:
		k := string(r.out[key:])
		r.out = append(append(append(r.out[:key], '"'), k...), '"')
	}
	r.out = append(r.out, ": "...)
	return r.value(depth + 1)
}

func (r *reader) number() error {
	at := r.i
	sign := ""
	for r.peek() == '-' || r.peek() == '+' {
		if r.peek() == '-' {
			if sign == "-" {
				return ErrSyntax
			}
			sign = "-"
		}
		r.i++
		r.space()
	}
	start := r.i
	for r.i < len(r.text) {
		c := r.text[r.i]
		exp := r.i > start && (c == '-' || c == '+') && (r.text[r.i-1] == 'e' || r.text[r.i-1] == 'E')
		if !exp && c != '.' && !isLetter(c) {
			break
		}
		r.i++
	}
	spelled := r.text[start:r.i]
	if t := strings.TrimLeft(spelled, "0"); r.o.ZeroPadded && t != spelled && t != "" && t[0] >= '1' && t[0] <= '9' {
		spelled = t
	}
	digits, ok := jsonNumber(spelled)
	if !ok {
		if r.i == len(r.text) && start == r.i {
			return ErrCut
		}
		r.i = at
		return ErrSyntax
	}
	r.out = append(append(r.out, sign...), digits...)
	return nil
}

// prefixes may be in front of a string.
var prefixes = map[string]bool{"": true, "r": true, "u": true, "b": true, "br": true, "rb": true}

// prefix returns the prefix of the string that begins here, in small letters.
func (r *reader) prefix() (string, bool) {
	j := r.i
	for j < len(r.text) && j-r.i <= 2 && isLetter(r.text[j]) {
		j++
	}
	w := strings.ToLower(r.text[r.i:j])
	return w, prefixes[w] && j < len(r.text) && (r.text[j] == '"' || r.text[j] == '\'')
}

// strings reads a string and the strings that follow: neighbours are joined, but none of
// bytes with one of text. Bytes that spell no text are refused: JSON cannot hold them.
func (r *reader) strings() error {
	var b []byte
	first, _ := r.prefix()
	bytes := strings.Contains(first, "b")
	r.half = false
	for {
		if err := r.str(&b, bytes); err != nil {
			return err
		}
		after := r.i
		r.space()
		next, ok := r.prefix()
		if !ok {
			r.i = after
			break
		}
		if strings.Contains(next, "b") != bytes {
			return ErrSyntax
		}
	}
	if bytes {
		if !utf8.Valid(b) {
			return ErrSyntax
		}
		if r.o.Odd != nil {
			*r.o.Odd = true
		}
	}
	if r.half {
		r.out = quoteHalves(r.out, b)
	} else {
		r.out = Quote(r.out, string(b))
	}
	return nil
}

func (r *reader) str(b *[]byte, bytes bool) error {
	prefix, _ := r.prefix()
	raw := strings.Contains(prefix, "r")
	r.i += len(prefix)
	q := r.text[r.i : r.i+1]
	long := strings.HasPrefix(r.text[r.i:], q+q+q)
	if long {
		q = q + q + q
	}
	r.i += len(q)
	for r.i < len(r.text) {
		switch c := r.text[r.i]; {
		case strings.HasPrefix(r.text[r.i:], q):
			r.i += len(q)
			return nil
		case c == '\\' && raw:
			*b = append(*b, c)
			r.i++
			if n := r.peek(); n == '\r' {
				*b = append(*b, '\n')
				r.line()
			} else if n != 0 && n < utf8.RuneSelf {
				*b = append(*b, n)
				r.i++
			}
		case c == '\\':
			if err := r.escape(b, bytes); err != nil {
				return err
			}
		case (c == '\n' || c == '\r') && !long && !r.o.RawNewlines, bytes && c >= utf8.RuneSelf:
			return ErrSyntax
		case c == '\r' && long: // a line ends with \n, however the file says it
			*b = append(*b, '\n')
			r.line()
		default:
			*b = append(*b, c)
			r.i++
		}
	}
	return ErrCut
}

// line passes the end of a line.
func (r *reader) line() {
	if r.peek() == '\r' {
		r.i++
		if r.peek() != '\n' {
			return
		}
	}
	r.i++
}

var simple = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'a': 7, 'v': 11, '\\': '\\', '\'': '\'', '"': '"'}

func (r *reader) escape(b *[]byte, bytes bool) error {
	if r.i+1 >= len(r.text) {
		return ErrCut
	}
	c := r.text[r.i+1]
	r.i += 2
	if s, ok := simple[c]; ok {
		*b = append(*b, s)
		return nil
	}
	switch {
	case c == '\n' || c == '\r':
		r.i--
		r.line()
	case c == '/' && r.o.JSONEscapes:
		*b = append(*b, '/')
	case c == 'x' && bytes:
		v, err := r.hex(2)
		*b = append(*b, byte(v))
		return err
	case c == 'x':
		return r.code(b, 2)
	case c == 'u' && !bytes:
		return r.code(b, 4)
	case c == 'U' && !bytes:
		return r.code(b, 8)
	case c == 'N' && !bytes:
		if err := r.named(b); err != ErrSyntax || !r.o.JSONEscapes {
			return err
		}
		*b = append(*b, '\\', c)
	case c >= '0' && c <= '7':
		v := rune(c - '0')
		for n := 1; n < 3 && r.peek() >= '0' && r.peek() <= '7' && r.i < len(r.text); n++ {
			v = v*8 + rune(r.peek()-'0')
			r.i++
		}
		if bytes {
			*b = append(*b, byte(v))
		} else {
			*b = utf8.AppendRune(*b, v)
		}
	default:
		*b = append(*b, '\\', c)
	}
	return nil
}

// named reads {NAME}, the name of a character.
func (r *reader) named(b *[]byte) error {
	if r.i >= len(r.text) {
		return ErrCut
	}
	if r.text[r.i] != '{' {
		return ErrSyntax
	}
	rest := r.text[r.i+1 : min(len(r.text), r.i+2+maxName)]
	n := strings.IndexByte(rest, '}')
	if n < 0 {
		if len(rest) < maxName+1 {
			return ErrCut
		}
		return ErrSyntax
	}
	v, ok := character(rest[:n])
	if !ok {
		return ErrSyntax
	}
	*b = utf8.AppendRune(*b, v)
	r.i += n + 2
	return nil
}

// code reads the n hexadecimal digits of a character, joining surrogate pairs.
func (r *reader) code(b *[]byte, n int) error {
	v, err := r.hex(n)
	if err != nil {
		return err
	}
	if v > utf8.MaxRune {
		return ErrSyntax
	}
	if v >= 0xd800 && v < 0xdc00 && strings.HasPrefix(r.text[r.i:], `\u`) {
		back := r.i
		r.i += 2
		low, err := r.hex(4)
		if err == nil && low >= 0xdc00 && low < 0xe000 {
			v = (v-0xd800)<<10 + (low - 0xdc00) + 0x10000
		} else {
			r.i = back
		}
	}
	if v >= 0xd800 && v < 0xe000 { // half a pair is a character in Python, and an escape in JSON
		r.half = true
		*b = append(*b, 0xed, byte(0x80|v>>6&0x3f), byte(0x80|v&0x3f))
		return nil
	}
	*b = utf8.AppendRune(*b, rune(v))
	return nil
}

func (r *reader) hex(n int) (uint32, error) {
	var v uint32
	for range n {
		if r.i >= len(r.text) {
			return 0, ErrCut
		}
		d := strings.IndexByte("0123456789abcdef0123456789ABCDEF", r.text[r.i])
		if d < 0 {
			return 0, ErrSyntax
		}
		v = v<<4 | uint32(d&15)
		r.i++
	}
	return v, nil
}

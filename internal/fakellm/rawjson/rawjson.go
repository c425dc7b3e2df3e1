// Package rawjson reads JSON without decoding it: fields and elements are slices of the text.
// A body of a request may have thousands of tokens, of which a few fields count.
//
// Strings and brackets are balanced; numbers, and nested values that are not asked for, are not
// looked into, so what passes need not be JSON.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ErrSyntax is the error for text that is no object or no list.
var ErrSyntax = errors.New("not a valid JSON object")

// SkipSpace returns the index of the next byte of b that is no white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at b[i], or -1.
func skipString(b []byte, i int) int {
	for j := i + 1; ; {
		k := bytes.IndexByte(b[j:], '"')
		if k < 0 {
			return -1
		}
		j += k
		n := j - 1
		for n > i && b[n] == '\\' {
			n--
		}
		if (j-1-n)%2 == 0 {
			return j + 1
		}
		j++
	}
}

// skipValue returns the index after the value that begins at b[i], or -1. It balances
// brackets and strings and does not look into numbers.
func skipValue(b []byte, i int) int {
	begin := i
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	case '}', ']', ',', ':':
		return -1
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == begin { // nothing at all is no value
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// Fields calls f with the raw key and raw value of every field of the object b.
func Fields(b []byte, f func(key, val []byte)) error {
	i := SkipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return ErrSyntax
	}
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return trailing(b, i+1)
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return ErrSyntax
		}
		end := skipString(b, i)
		if end < 0 {
			return ErrSyntax
		}
		key := b[i+1 : end-1]
		i = SkipSpace(b, end)
		if i >= len(b) || b[i] != ':' {
			return ErrSyntax
		}
		i = SkipSpace(b, i+1)
		end = skipValue(b, i)
		if end < 0 {
			return ErrSyntax
		}
		f(key, b[i:end])
		i = SkipSpace(b, end)
		if i >= len(b) {
			return ErrSyntax
		}
		if b[i] == '}' {
			return trailing(b, i+1)
		}
		if b[i] != ',' {
			return ErrSyntax
		}
		i = SkipSpace(b, i+1)
	}
}

func trailing(b []byte, i int) error {
	if SkipSpace(b, i) != len(b) {
		return ErrSyntax
	}
	return nil
}

// Elems calls f with every raw element of the array b until f returns false.
func Elems(b []byte, f func(val []byte) bool) error {
	i := SkipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return ErrSyntax
	}
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return nil
	}
	for {
		end := skipValue(b, i)
		if end < 0 {
			return ErrSyntax
		}
		if !f(b[i:end]) {
			return nil
		}
		i = SkipSpace(b, end)
		if i >= len(b) {
			return ErrSyntax
		}
		if b[i] == ']' {
			return nil
		}
		if b[i] != ',' {
			return ErrSyntax
		}
		i = SkipSpace(b, i+1)
	}
}

// Field returns the raw value of one field of the object b, or nil.
func Field(b []byte, name string) (out []byte) {
	_ = Fields(b, func(key, val []byte) { // a broken object has no such field
		if string(key) == name {
			out = val
		}
	})
	return out
}

// Text decodes a raw JSON string; text parts of a list are joined, other values give "".
func Text(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
			return string(raw[1 : len(raw)-1])
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case '[':
		var out []byte
		_ = Elems(raw, func(part []byte) bool { // what cannot be read adds nothing
			out = append(out, Text(Field(part, "text"))...)
			return true
		})
		return string(out)
	}
	return ""
}

const hexDigits = "0123456789abcdef"

// Quote appends s to b as a JSON string; invalid UTF-8 becomes U+FFFD.
func Quote(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x80 {
			continue
		}
		if c >= 0x80 {
			return append(append(b, tailQuoted(s[start:])...), '"')
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

// tailQuoted encodes text with bytes beyond ASCII, without the quotes.
func tailQuoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // a string always encodes
		return nil
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return out[1 : len(out)-1]
}

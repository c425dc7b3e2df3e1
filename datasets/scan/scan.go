// Package scan reads JSON text in place: it checks a value against the grammar of
// RFC 8259, splits objects and arrays into raw slices of the text they are in, and
// decodes strings.
//
// It is there because rows are read by the million: a value that is not asked for is
// walked once and never built. Depth is bounded, nothing panics on any input, and no
// function keeps state, so all are safe for concurrent use.
package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxDepth is how deep objects and arrays may nest.
const MaxDepth = 512

// ErrCut says that the text ended inside a value.
var ErrCut = errors.New("the JSON text ends inside a value")

// Error is a place at which the text is not JSON.
type Error struct {
	Offset int // bytes from the start of the text
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

func fail(at int, format string, args ...any) error {
	return &Error{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// Space returns the index of the first byte of b[i:] that is not JSON white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// Value checks the value that starts at b[i] (white space before it is skipped) and
// returns the index behind it. The error is [ErrCut] or an [*Error].
func Value(b []byte, i int) (int, error) { return value(b, Space(b, i), 0) }

func value(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, ErrCut
	}
	switch c := b[i]; {
	case c == '"':
		end, _, err := String(b, i)
		return end, err
	case c == '{':
		return object(b, i, depth+1)
	case c == '[':
		return array(b, i, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return number(b, i)
	case c == 't':
		return literal(b, i, "true")
	case c == 'f':
		return literal(b, i, "false")
	case c == 'n':
		return literal(b, i, "null")
	case c == 'N' || c == 'I':
		return i, fail(i, "NaN and Infinity are not JSON")
	default:
		return i, fail(i, "%s where a value should start", show(c))
	}
}

func object(b []byte, i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, fail(i, "nested deeper than %d", MaxDepth)
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		at, err := colon(b, i)
		if err != nil {
			return at, err
		}
		i, err = value(b, Space(b, at), depth)
		if err != nil {
			return i, err
		}
		var more bool
		i, more, err = next(b, i, '}')
		if err != nil || !more {
			return i, err
		}
	}
}

// colon reads a key and its colon and returns the index behind it.
func colon(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, ErrCut
	}
	if b[i] != '"' {
		return i, fail(i, "%s where a quoted key should stand", show(b[i]))
	}
	i, _, err := String(b, i)
	if err != nil {
		return i, err
	}
	i = Space(b, i)
	if i >= len(b) {
		return i, ErrCut
	}
	if b[i] != ':' {
		return i, fail(i, "%s where a colon should stand", show(b[i]))
	}
	return i + 1, nil
}

// next reads the comma or the closing byte behind an element.
func next(b []byte, i int, closing byte) (int, bool, error) {
	i = Space(b, i)
	if i >= len(b) {
		return i, false, ErrCut
	}
	switch b[i] {
	case closing:
		return i + 1, false, nil
	case ',':
		return Space(b, i+1), true, nil
	}
	return i, false, fail(i, "%s where a comma or %q should stand", show(b[i]), closing)
}

func array(b []byte, i, depth int) (int, error) {
	if depth > MaxDepth {
		return i, fail(i, "nested deeper than %d", MaxDepth)
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		i, err = value(b, i, depth)
		if err != nil {
			return i, err
		}
		var more bool
		i, more, err = next(b, i, ']')
		if err != nil || !more {
			return i, err
		}
	}
}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// String checks the string that starts with the quote at b[i]; it returns the index
// behind it and whether it holds a backslash.
func String(b []byte, i int) (end int, escaped bool, err error) {
	i++
	for {
		for i+8 <= len(b) { // eight bytes at a time: quote, backslash or control byte?
			w := binary.LittleEndian.Uint64(b[i:])
			q, s := w^(ones*'"'), w^(ones*'\\')
			if hit := ((w-ones*0x20)&^w | (q-ones)&^q | (s-ones)&^s) & highs; hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, escaped, ErrCut
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			i, err = escape(b, i)
			if err != nil {
				return i, true, err
			}
		case c < 0x20:
			return i, escaped, fail(i, "%s inside a string", show(c))
		default:
			i++
		}
	}
}

func escape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i, ErrCut
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if k >= len(b) {
				return i, ErrCut
			}
			if hex(b[k]) < 0 {
				return i, fail(i, `\u without four hexadecimal digits`)
			}
		}
		return i + 6, nil
	}
	return i, fail(i, "unknown escape \\%s", show(b[i+1]))
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func number(b []byte, i int) (int, error) {
	start := i
	if b[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == 'I' {
		return start, fail(start, "NaN and Infinity are not JSON")
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return start, cutOr(b, i, start, "a minus sign without digits")
	}
	if i < len(b) && b[i] >= '0' && b[i] <= '9' {
		return start, fail(start, "a number with a leading zero")
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return start, cutOr(b, i, start, "a number without digits behind its point")
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return start, cutOr(b, i, start, "a number without digits in its exponent")
		}
	}
	return i, nil
}

func cutOr(b []byte, i, start int, reason string) error {
	if i >= len(b) {
		return ErrCut
	}
	return fail(start, "%s", reason)
}

func literal(b []byte, i int, word string) (int, error) {
	if bytes.HasPrefix(b[i:], []byte(word)) {
		return i + len(word), nil
	}
	if len(b)-i < len(word) && word[:len(b)-i] == string(b[i:]) {
		return i, ErrCut
	}
	return i, fail(i, "%s where a value should start", show(b[i]))
}

// show names a byte for a message.
func show(c byte) string {
	if c == 0 {
		return "a NUL byte"
	}
	if c < 0x20 || c >= 0x7f {
		return fmt.Sprintf("byte 0x%02x", c)
	}
	return fmt.Sprintf("%q", c)
}

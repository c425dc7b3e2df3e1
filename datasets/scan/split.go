package scan

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Field is one member of an object. Value is a slice of the text.
type Field struct {
	Key   string
	Value []byte
}

// ErrNotObject says that a text holds another value than an object.
var ErrNotObject = errors.New("not a JSON object")

// Object checks that b is one object, with white space around it at most, and appends
// its members to to, in order. A key that occurs twice is an error. The values are
// slices of b; keys named by intern (may be nil) share its strings.
func Object(b []byte, to []Field, intern func([]byte) (string, bool)) ([]Field, error) {
	i := Space(b, 0)
	if i >= len(b) {
		return to, ErrCut
	}
	if b[i] != '{' {
		if _, err := Value(b, i); err != nil {
			return to, err
		}
		return to, fmt.Errorf("%s, %w", Kind(b[i:]), ErrNotObject)
	}
	i = Space(b, i+1)
	more := true
	if i < len(b) && b[i] == '}' {
		i, more = i+1, false
	}
	for first := len(to); more; {
		f, end, err := member(b, i, intern)
		if err != nil {
			return to, err
		}
		to = append(to, f)
		if len(to)-first <= 16 {
			if err := unlike(to[first:len(to)-1], f.Key); err != nil {
				return to, err
			}
		}
		i, more, err = next(b, end, '}')
		if err != nil {
			return to, err
		}
		if !more && len(to)-first > 16 {
			if err := distinct(to[first:]); err != nil {
				return to, err
			}
		}
	}
	i = Space(b, i)
	if i < len(b) {
		return to, fail(i, "%s behind the object", show(b[i]))
	}
	return to, nil
}

func member(b []byte, i int, intern func([]byte) (string, bool)) (Field, int, error) {
	if i >= len(b) {
		return Field{}, i, ErrCut
	}
	if b[i] != '"' {
		return Field{}, i, fail(i, "%s where a quoted key should stand", show(b[i]))
	}
	end, escaped, err := String(b, i)
	if err != nil {
		return Field{}, i, err
	}
	key, known := "", false
	if !escaped && intern != nil {
		key, known = intern(b[i+1 : end-1])
	}
	if !known {
		key, err = Unquote(b[i:end])
		if err != nil {
			return Field{}, i, fmt.Errorf("key at byte %d: %w", i, err)
		}
	}
	at := Space(b, end)
	if at >= len(b) {
		return Field{}, at, ErrCut
	}
	if b[at] != ':' {
		return Field{}, at, fail(at, "%s where a colon should stand", show(b[at]))
	}
	at = Space(b, at+1)
	stop, err := value(b, at, 1)
	if err != nil {
		return Field{}, stop, err
	}
	return Field{Key: key, Value: b[at:stop:stop]}, stop, nil
}

func unlike(fields []Field, key string) error {
	for i := range fields {
		if fields[i].Key == key {
			return fmt.Errorf("key %q is given twice in one object", key)
		}
	}
	return nil
}

func distinct(fields []Field) error {
	seen := make(map[string]struct{}, len(fields))
	for _, f := range fields {
		if _, twice := seen[f.Key]; twice {
			return fmt.Errorf("key %q is given twice in one object", f.Key)
		}
		seen[f.Key] = struct{}{}
	}
	return nil
}

// Array checks that b is one array and appends its elements, slices of b, to to.
func Array(b []byte, to [][]byte) ([][]byte, error) {
	i := Space(b, 0)
	if i >= len(b) {
		return to, ErrCut
	}
	if b[i] != '[' {
		return to, fmt.Errorf("%s, not a list", Kind(b[i:]))
	}
	i = Space(b, i+1)
	more := true
	if i < len(b) && b[i] == ']' {
		i, more = i+1, false
	}
	for more {
		end, err := value(b, i, 1)
		if err != nil {
			return to, err
		}
		to = append(to, b[i:end:end])
		i, more, err = next(b, end, ']')
		if err != nil {
			return to, err
		}
	}
	i = Space(b, i)
	if i < len(b) {
		return to, fail(i, "%s behind the list", show(b[i]))
	}
	return to, nil
}

// Kind names the kind of a value by its first byte, for messages: "text", "a number"…
func Kind(v []byte) string {
	if i := Space(v, 0); i < len(v) {
		switch v[i] {
		case '"':
			return "text"
		case '{':
			return "an object"
		case '[':
			return "a list"
		case 't', 'f':
			return "a truth value"
		case 'n':
			return "null"
		default:
			return "a number"
		}
	}
	return "nothing"
}

// Null tells whether v is null.
func Null(v []byte) bool { return len(v) == 4 && v[0] == 'n' }

// ErrSurrogate says that a string names half a character, which no text can hold.
var ErrSurrogate = errors.New(`\u escape of a lone surrogate`)

// Unquote decodes the string literal b, quotes included. Half a surrogate pair is
// [ErrSurrogate]; bytes that are not UTF-8 are kept, so check the text beforehand.
func Unquote(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' {
		return "", fmt.Errorf("%s, not text", Kind(b))
	}
	end, escaped, err := String(b, 0)
	if err != nil {
		return "", err
	}
	if end != len(b) {
		return "", fail(end, "text behind a string")
	}
	if !escaped {
		return string(b[1 : end-1]), nil
	}
	return unescape(b[1 : end-1])
}

// unescape decodes the inside of a checked string.
func unescape(b []byte) (string, error) {
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			from := i
			for i < len(b) && b[i] != '\\' {
				i++
			}
			out.Write(b[from:i])
			continue
		}
		switch c := b[i+1]; c {
		case 'u':
			r, n := unicodeEscape(b[i:])
			if r < 0 {
				return "", fmt.Errorf("%w (%s)", ErrSurrogate, b[i:i+6])
			}
			out.WriteRune(r)
			i += n
			continue
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		default:
			out.WriteByte(c)
		}
		i += 2
	}
	return out.String(), nil
}

// unicodeEscape decodes \uXXXX, or a pair of them, at the start of b; -1 is half a pair.
func unicodeEscape(b []byte) (rune, int) {
	r := rune(hex(b[2])<<12 | hex(b[3])<<8 | hex(b[4])<<4 | hex(b[5]))
	if r < 0xd800 || r > 0xdfff {
		return r, 6
	}
	if r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		low := rune(hex(b[8])<<12 | hex(b[9])<<8 | hex(b[10])<<4 | hex(b[11]))
		if low >= 0xdc00 && low <= 0xdfff {
			return 0x10000 + (r-0xd800)<<10 + (low - 0xdc00), 12
		}
	}
	return -1, 6
}

const digits = "0123456789abcdef"

// Quote appends s as a JSON string. Only what must be is escaped; bytes that are not
// UTF-8 become U+FFFD.
func Quote(to []byte, s string) []byte {
	to = append(to, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				to = append(append(to, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		to = append(to, s[from:i]...)
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, `\n`...)
		case '\r':
			to = append(to, `\r`...)
		case '\t':
			to = append(to, `\t`...)
		default:
			to = append(to, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		from = i
	}
	return append(append(to, s[from:]...), '"')
}

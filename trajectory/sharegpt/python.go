package sharegpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// embed writes JSON text as Python's json.dumps(ensure_ascii=False) would write what it
// reads; text that is no JSON becomes a string.
func embed(s string) string {
	if s == "" {
		return "{}"
	}
	if b, ok := appendWalked(make([]byte, 0, len(s)+len(s)/8), s); ok {
		return string(b)
	}
	return embedSlowly(s)
}

// embedSlowly is embed for what appendWalked does not expect.
func embedSlowly(s string) string {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var b strings.Builder
	if err := value(&b, d, 0); err != nil {
		return quote(s)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return quote(s)
	}
	return b.String()
}

const maxDepth = 500 // of nested JSON; deeper text stays a string

func value(b *strings.Builder, d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return errors.New("too deep")
	}
	switch t := t.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(t))
	case string:
		b.WriteString(quote(t))
	case json.Number:
		b.WriteString(number(string(t)))
	case json.Delim:
		if t == '[' {
			return array(b, d, depth)
		}
		return object(b, d, depth)
	}
	return nil
}

func array(b *strings.Builder, d *json.Decoder, depth int) error {
	b.WriteByte('[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := value(b, d, depth+1); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	_, err := d.Token()
	return err
}

// object writes an object as a Python dict holds it: of equal keys the first place and
// the last value.
func object(b *strings.Builder, d *json.Decoder, depth int) error {
	var keys []string
	values := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		k, ok := t.(string)
		if !ok {
			return fmt.Errorf("key %v", t)
		}
		var v strings.Builder
		if err := value(&v, d, depth+1); err != nil {
			return err
		}
		if _, ok := values[k]; !ok {
			keys = append(keys, k)
		}
		values[k] = v.String()
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(k) + ": " + values[k])
	}
	b.WriteByte('}')
	return nil
}

// number writes a number as Python does: integers as they are, others as repr.
func number(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0"
		}
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return s // Python would write Infinity, which is no JSON
	}
	if e := math.Abs(f); e != 0 && (e < 1e-4 || e >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes a string with the escapes of Python.
func quote(s string) string { return string(appendQuoted(make([]byte, 0, len(s)+len(s)/16+2), s)) }

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && plain(s[i]) {
			i++
		}
		b = append(b, s[from:i]...)
		if i == len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			b = appendRune(b, rune(s[i]))
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, r) // of invalid UTF-8, U+FFFD for each byte
		i += n
	}
	return append(b, '"')
}

// plain reports whether a byte of a string is written as it is.
func plain(c byte) bool { return c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' }

// appendRune writes a character of a string.
func appendRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	}
	if r < 0x20 {
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return utf8.AppendRune(b, r)
}

package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxJSONDepth = 900

// Decode reads one JSON text into values as json.loads does it: objects become
// [*Dict] in order, the last of equal keys wins, integers of any size stay whole,
// and everything with a point or exponent is a float.
func Decode(data []byte) (any, error) {
	if json.Valid(data) {
		s := scanner{data: data}
		if v := s.value(0); !s.deep {
			return v, nil
		}
	}
	return decodeSlowly(data) // for its errors
}

// decodeSlowly reads token by token with the standard library.
func decodeSlowly(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decodeValue(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode JSON: text after the value at byte %d", dec.InputOffset())
	}
	return v, nil
}

// scanner reads JSON that is known to be valid.
type scanner struct {
	data []byte
	pos  int
	deep bool
}

// next skips white space and commas and returns the byte there.
func (s *scanner) next() byte {
	for {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.pos++
		default:
			return c
		}
	}
}

func (s *scanner) value(depth int) any {
	if depth > maxJSONDepth {
		s.deep = true
	}
	c := s.next()
	if s.deep {
		return nil
	}
	switch c {
	case '{':
		d := NewDict()
		for s.pos++; s.next() != '}' && !s.deep; {
			key := s.text()
			d.put(key, s.value(depth+1))
		}
		s.pos++
		return d
	case '[':
		l := &List{}
		for s.pos++; s.next() != ']' && !s.deep; {
			l.items = append(l.items, s.value(depth+1))
		}
		s.pos++
		return l
	case '"':
		return s.text()
	case 't':
		s.pos += len("true")
		return true
	case 'f':
		s.pos += len("false")
		return false
	case 'n':
		s.pos += len("null")
		return nil
	}
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte("+-.eE0123456789", s.data[s.pos]) >= 0 {
		s.pos++
	}
	return parseNumber(string(s.data[start:s.pos]))
}

// text reads the string that begins at pos.
func (s *scanner) text() string {
	start := s.pos
	plain := true
	for s.pos++; s.data[s.pos] != '"'; s.pos++ {
		if s.data[s.pos] == '\\' {
			plain = false
			s.pos++
		}
	}
	s.pos++
	if body := s.data[start+1 : s.pos-1]; plain && utf8.Valid(body) {
		return string(body)
	}
	var t string
	_ = json.Unmarshal(s.data[start:s.pos], &t) // valid: checked before
	return t
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			return decodeList(dec, depth)
		}
		return decodeDict(dec, depth)
	case json.Number:
		return parseNumber(t.String()), nil
	}
	return tok, nil
}

func decodeList(dec *json.Decoder, depth int) (any, error) {
	l := &List{}
	for dec.More() {
		v, err := decodeValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, v)
	}
	_, err := dec.Token()
	return l, err
}

func decodeDict(dec *json.Decoder, depth int) (any, error) {
	d := NewDict()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		d.put(key, v)
	}
	_, err := dec.Token()
	return d, err
}

func parseNumber(s string) any {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range is infinite, as in Python
		return f
	}
	if i, err := strconv.Atoi(s); err == nil {
		return i
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return 0
	}
	return n
}

// plainJSON reports whether s is ASCII without anything to escape.
func plainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// encoder is json.dumps.
type encoder struct {
	st        *state
	b         []byte
	ascii     bool
	sortKeys  bool
	indent    string
	multiline bool
	item, key string // separators
}

func (e *encoder) value(v any, depth int) {
	if depth > maxJSONDepth {
		panic(&Error{Class: ClassLimit, Kind: "RecursionError", Message: "maximum recursion depth exceeded while encoding a JSON object"})
	}
	e.st.step(0)
	if len(e.b) > e.st.maxBytes {
		panic(limitf("a JSON text of %d bytes exceeds %d", len(e.b), e.st.maxBytes))
	}
	switch v := v.(type) {
	case nil:
		e.b = append(e.b, "null"...)
	case bool:
		e.b = strconv.AppendBool(e.b, v)
	case int:
		e.b = strconv.AppendInt(e.b, int64(v), 10)
	case *big.Int:
		e.b = v.Append(e.b, 10)
	case float64:
		e.b = append(e.b, jsonFloat(v)...)
	case string:
		e.text(v)
	case Markup:
		e.text(string(v))
	case *List:
		e.list(v.items, depth)
	case *Tuple:
		e.list(v.items, depth)
	case *Dict:
		e.dict(v, depth)
	default:
		panic(typeErrorf("Object of type %s is not JSON serializable", typeName(v)))
	}
}

func (e *encoder) list(items []any, depth int) {
	if len(items) == 0 {
		e.b = append(e.b, "[]"...)
		return
	}
	e.b = append(e.b, '[')
	for i, v := range items {
		if i > 0 {
			e.b = append(e.b, e.item...)
		}
		e.newline(depth + 1)
		e.value(v, depth+1)
	}
	e.newline(depth)
	e.b = append(e.b, ']')
}

func (e *encoder) dict(d *Dict, depth int) {
	if len(d.keys) == 0 {
		e.b = append(e.b, "{}"...)
		return
	}
	order := d.keys
	if e.sortKeys {
		order = slices.Clone(order)
		e.st.sort(order, func(v any) any { return v }, false)
	}
	e.b = append(e.b, '{')
	for i, k := range order {
		if i > 0 {
			e.b = append(e.b, e.item...)
		}
		e.newline(depth + 1)
		e.text(jsonKey(k))
		e.b = append(e.b, e.key...)
		if !e.sortKeys {
			e.value(d.vals[i], depth+1)
			continue
		}
		v, _ := d.lookup(k)
		e.value(v, depth+1)
	}
	e.newline(depth)
	e.b = append(e.b, '}')
}

func jsonKey(k any) string {
	switch k := k.(type) {
	case string:
		return k
	case Markup:
		return string(k)
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(k)
	case int:
		return itoa(k)
	case *big.Int:
		return k.String()
	case float64:
		return jsonFloat(k)
	}
	panic(typeErrorf("keys must be str, int, float, bool or None, not %s", typeName(k)))
}

func (e *encoder) newline(depth int) {
	if !e.multiline {
		return
	}
	e.st.size(len(e.indent) * depth)
	e.b = append(e.b, '\n')
	for range depth {
		e.b = append(e.b, e.indent...)
	}
}

func (e *encoder) text(s string) {
	e.st.step(len(s))
	e.b = append(e.b, '"')
	if plainJSON(s) {
		e.b = append(append(e.b, s...), '"')
		return
	}
	start := 0
	for i, r := range s {
		var short byte
		switch r {
		case '"', '\\':
			short = byte(r)
		case '\n':
			short = 'n'
		case '\r':
			short = 'r'
		case '\t':
			short = 't'
		case '\b':
			short = 'b'
		case '\f':
			short = 'f'
		default:
			if r >= 0x20 && (!e.ascii || r < 0x7f) {
				continue
			}
		}
		e.b = append(e.b, s[start:i]...)
		start = i + len(string(r))
		if r == 0xfffd && !strings.HasPrefix(s[i:], "\uFFFD") {
			start = i + 1
		}
		switch {
		case short != 0:
			e.b = append(e.b, '\\', short)
		case r > 0xffff:
			r -= 0x10000
			e.b = appendEscape(e.b, 0xd800+r>>10)
			e.b = appendEscape(e.b, 0xdc00+r&0x3ff)
		case r < 0x100:
			e.b = append(e.b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			e.b = appendEscape(e.b, r)
		}
	}
	e.b = append(append(e.b, s[start:]...), '"')
}

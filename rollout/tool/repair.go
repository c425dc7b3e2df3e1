package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// RepairArguments reads the arguments of a call as a model wrote them and returns a JSON
// object. Valid JSON passes as it is. Repaired are slips with one possible meaning: nothing
// at all (no arguments), an object inside a JSON string or a code fence, raw line breaks and
// unknown escapes in strings, single quotes, trailing commas, and Python's True, False, None.
// Text that ends too early is never completed: a truncated call must not run.
func RepairArguments(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	if json.Valid([]byte(text)) {
		return object(text)
	}
	if inner, ok := strings.CutPrefix(text, "```"); ok && strings.HasSuffix(inner, "```") {
		inner = strings.TrimSpace(strings.TrimPrefix(strings.TrimSuffix(inner, "```"), "json"))
		if !strings.HasPrefix(inner, "```") {
			return RepairArguments(inner)
		}
	}
	l := lenient{in: text}
	if err := l.value(0); err != nil {
		return nil, err
	}
	l.space()
	if l.at < len(l.in) {
		return nil, fmt.Errorf("unexpected %q after the value, at character %d", clip(l.in[l.at:]), l.column())
	}
	return object(l.out.String())
}

// object wants an object, or a string that holds one.
func object(text string) (json.RawMessage, error) {
	switch text[0] {
	case '{':
		return json.RawMessage(text), nil
	case '"':
		var inner string
		if err := json.Unmarshal([]byte(text), &inner); err != nil {
			return nil, err
		}
		inner = strings.TrimSpace(inner)
		if inner == "" {
			return json.RawMessage("{}"), nil
		}
		if inner[0] == '{' && json.Valid([]byte(inner)) {
			return json.RawMessage(inner), nil
		}
	}
	return nil, fmt.Errorf("expected a JSON object, got %q", clip(text))
}

func clip(text string) string {
	if utf8.RuneCountInString(text) > 40 {
		return head(text, 40) + "…"
	}
	return text
}

// ErrEnds says that arguments end too early: the answer was cut inside them.
var ErrEnds = errors.New("the text ends too early (was the call cut off?)")

// lenient copies a value from in to out, as strict JSON.
type lenient struct {
	in  string
	at  int
	out bytes.Buffer
}

func (l *lenient) column() int { return utf8.RuneCountInString(l.in[:l.at]) + 1 }

func (l *lenient) space() {
	for l.at < len(l.in) && strings.IndexByte(" \t\r\n", l.in[l.at]) >= 0 {
		l.at++
	}
}

func (l *lenient) value(depth int) error {
	l.space()
	if depth > 200 {
		return errors.New("nested too deep")
	}
	if l.at >= len(l.in) {
		return ErrEnds
	}
	switch c := l.in[l.at]; c {
	case '{':
		return l.list('}', depth, l.pair)
	case '[':
		return l.list(']', depth, l.value)
	case '"', '\'':
		return l.text(c)
	}
	return l.word()
}

func (l *lenient) pair(depth int) error {
	l.space()
	if l.at >= len(l.in) {
		return ErrEnds
	}
	if c := l.in[l.at]; c != '"' && c != '\'' {
		return fmt.Errorf("expected a quoted name at character %d, got %q", l.column(), clip(l.in[l.at:]))
	}
	if err := l.text(l.in[l.at]); err != nil {
		return err
	}
	l.space()
	if l.at >= len(l.in) {
		return ErrEnds
	}
	if l.in[l.at] != ':' {
		return fmt.Errorf("expected ':' at character %d, got %q", l.column(), clip(l.in[l.at:]))
	}
	l.at++
	l.out.WriteByte(':')
	return l.value(depth)
}

func (l *lenient) list(end byte, depth int, item func(int) error) error {
	l.out.WriteByte(l.in[l.at])
	l.at++
	for n := 0; ; n++ {
		l.space()
		if l.at >= len(l.in) {
			return ErrEnds
		}
		if l.in[l.at] == end {
			l.at++
			l.out.WriteByte(end)
			return nil
		}
		if n > 0 {
			l.out.WriteByte(',')
		}
		if err := item(depth + 1); err != nil {
			return err
		}
		l.space()
		if l.at >= len(l.in) {
			return ErrEnds
		}
		switch l.in[l.at] {
		case ',':
			l.at++
		case end:
		default:
			return fmt.Errorf("expected ',' or %q at character %d, got %q", end, l.column(), clip(l.in[l.at:]))
		}
	}
}

// text copies a string; c is its quote.
func (l *lenient) text(c byte) error {
	l.at++
	var b strings.Builder
	for l.at < len(l.in) {
		switch ch := l.in[l.at]; ch {
		case c:
			l.at++
			l.out.WriteString(JSON(b.String()))
			return nil
		case '\\':
			if l.at+1 >= len(l.in) {
				return ErrEnds
			}
			l.at += l.escape(&b, l.in[l.at:])
		default:
			b.WriteByte(ch)
			l.at++
		}
	}
	return ErrEnds
}

// escape writes what an escape means and returns its length. Escapes that JSON does not know
// keep their backslash, as in "\d+".
func (l *lenient) escape(b *strings.Builder, in string) int {
	switch in[1] {
	case '\'':
		b.WriteByte('\'')
		return 2
	case 'u':
		n := 6
		if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' && (strings.HasPrefix(strings.ToLower(in[2:]), "d8") || strings.HasPrefix(strings.ToLower(in[2:]), "d9") ||
			strings.HasPrefix(strings.ToLower(in[2:]), "da") || strings.HasPrefix(strings.ToLower(in[2:]), "db")) {
			n = 12
		}
		var s string
		if len(in) >= n && json.Unmarshal([]byte(`"`+in[:n]+`"`), &s) == nil {
			b.WriteString(s)
			return n
		}
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		var s string
		if json.Unmarshal([]byte(`"`+in[:2]+`"`), &s) == nil {
			b.WriteString(s)
			return 2
		}
	}
	b.WriteByte('\\')
	return 1
}

func (l *lenient) word() error {
	end := l.at
	for end < len(l.in) && strings.IndexByte(" \t\r\n,]}:", l.in[end]) < 0 {
		end++
	}
	w := l.in[l.at:end]
	switch w {
	case "True":
		w = "true"
	case "False":
		w = "false"
	case "None":
		w = "null"
	}
	if !json.Valid([]byte(w)) || strings.ContainsAny(w, "\"{[") {
		return fmt.Errorf("unexpected %s at character %d", strconv.Quote(clip(w)), l.column())
	}
	l.at = end
	l.out.WriteString(w)
	return nil
}

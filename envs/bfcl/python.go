package bfcl

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermes/internal/pyvalue"
)

// pythonCall is a call written as Python text, its values as JSON decodes them.
type pythonCall struct {
	name       string
	positional []any
	args       map[string]any
}

// parseCall reads name(1, key='text', list=[…]) with literals alone.
func parseCall(text string) (pythonCall, error) {
	c := pythonCall{args: map[string]any{}}
	name, rest := word(text)
	rest, ok := strings.CutPrefix(rest, "(")
	if name == "" || !ok {
		return c, errors.New("want NAME(arguments)")
	}
	c.name = name
	for {
		key, after := word(rest)
		if end, ok := strings.CutPrefix(after, ")"); ok && key == "" {
			rest = end
			break
		}
		after, named := strings.CutPrefix(after, "=")
		if key == "" || !named {
			after = rest
		}
		v, n, err := literal(after)
		if err != nil {
			return c, fmt.Errorf("%.20q: %w", after, err)
		}
		_, twice := c.args[key]
		switch {
		case !named:
			c.positional = append(c.positional, v)
		case twice:
			return c, fmt.Errorf("%s is given twice", key)
		default:
			c.args[key] = v
		}
		rest = strings.TrimLeft(after[n:], blanks)
		if comma, ok := strings.CutPrefix(rest, ","); ok {
			rest = comma
		} else if !strings.HasPrefix(rest, ")") {
			return c, fmt.Errorf("want , or ) before %.20q", rest)
		}
	}
	if rest := strings.TrimSpace(rest); rest != "" {
		return c, fmt.Errorf("%.20q is behind the call", rest)
	}
	return c, nil
}

const blanks = " \t\n\r"

// word is the name at the beginning of a text, if there is one, and what follows it.
func word(s string) (name, rest string) {
	s = strings.TrimLeft(s, blanks)
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] == '.' || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	return s[:n], strings.TrimLeft(s[n:], blanks)
}

// literal reads the literal at the beginning of a text, n bytes long.
func literal(s string) (v any, n int, err error) {
	raw, n, err := pyvalue.Read(s, pyvalue.Options{PythonOnly: true, RawNewlines: true})
	if err == nil {
		err = json.Unmarshal([]byte(raw), &v)
	}
	return v, n, err
}

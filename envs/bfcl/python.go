package bfcl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	p := &literals{s: strings.TrimSpace(text)}
	c.name = p.word()
	if c.name == "" || !p.take("(") {
		return c, errors.New("want NAME(arguments)")
	}
	for !p.take(")") {
		if key, after := p.peekWord(); key != "" && strings.HasPrefix(after, "=") {
			p.s = after[1:]
			v, err := p.value(0)
			if err != nil {
				return c, err
			}
			if _, twice := c.args[key]; twice {
				return c, fmt.Errorf("%s is given twice", key)
			}
			c.args[key] = v
		} else {
			v, err := p.value(0)
			if err != nil {
				return c, err
			}
			c.positional = append(c.positional, v)
		}
		if !p.take(",") && !p.at(")") {
			return c, fmt.Errorf("want , or ) before %.20q", p.s)
		}
	}
	if p.skip(); p.s != "" {
		return c, fmt.Errorf("%.20q stands behind the call", p.s)
	}
	return c, nil
}

// literals reads Python's literals off the front of s.
type literals struct{ s string }

func (p *literals) skip() { p.s = strings.TrimLeft(p.s, " \t\n\r") }

func (p *literals) at(mark string) bool { p.skip(); return strings.HasPrefix(p.s, mark) }

func (p *literals) take(mark string) bool {
	if !p.at(mark) {
		return false
	}
	p.s = p.s[len(mark):]
	return true
}

func wordEnd(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] == '.' || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	return n
}

func (p *literals) word() string {
	p.skip()
	n := wordEnd(p.s)
	w := p.s[:n]
	p.s = p.s[n:]
	return w
}

// peekWord is the next word and what follows it.
func (p *literals) peekWord() (string, string) {
	p.skip()
	n := wordEnd(p.s)
	return p.s[:n], strings.TrimLeft(p.s[n:], " \t\n\r")
}

const deepest = 50

func (p *literals) value(depth int) (any, error) {
	if depth > deepest {
		return nil, errors.New("too deep")
	}
	p.skip()
	switch {
	case p.s == "":
		return nil, errors.New("a value is missing")
	case p.s[0] == '\'' || p.s[0] == '"':
		return p.text()
	case p.s[0] == '[' || p.s[0] == '(':
		end := map[byte]string{'[': "]", '(': ")"}[p.s[0]]
		p.s = p.s[1:]
		return p.list(end, depth)
	case p.s[0] == '{':
		p.s = p.s[1:]
		return p.dict(depth)
	}
	sign := ""
	if p.take("-") {
		sign = "-"
	}
	w := p.word()
	switch w {
	case "True", "False":
		return w == "True", nil
	case "None":
		return nil, nil
	}
	f, err := strconv.ParseFloat(sign+strings.ReplaceAll(w, "_", ""), 64)
	if err != nil {
		return nil, fmt.Errorf("%.20q is no literal", sign+w)
	}
	return f, nil
}

func (p *literals) list(end string, depth int) (any, error) {
	out := []any{}
	for !p.take(end) {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if !p.take(",") && !p.at(end) {
			return nil, fmt.Errorf("want , or %s before %.20q", end, p.s)
		}
	}
	return out, nil
}

func (p *literals) dict(depth int) (any, error) {
	out := map[string]any{}
	for !p.take("}") {
		k, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok || !p.take(":") {
			return nil, fmt.Errorf("want 'key': value before %.20q", p.s)
		}
		out[key], err = p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.take(",") && !p.at("}") {
			return nil, fmt.Errorf("want , or } before %.20q", p.s)
		}
	}
	return out, nil
}

// text reads a quoted text with the escapes that the data has.
func (p *literals) text() (any, error) {
	quote := p.s[0]
	var b strings.Builder
	for i := 1; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == quote:
			p.s = p.s[i+1:]
			return b.String(), nil
		case c == '\\' && i+1 < len(p.s):
			i++
			switch p.s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '\\', '\'', '"':
				b.WriteByte(p.s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(p.s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return nil, errors.New("a text is not closed")
}

// Package expr reads conditions such as `reward >= 0.5 and not (turns > 20)`: comparisons
// of a name with a value, joined by and, or, not (&&, ||, !) and parentheses. What a name
// means is the caller's: a [Leaf] compiles one comparison. A compiled condition is a pure
// function.
package expr

import (
	"fmt"
	"strings"
)

// Leaf compiles one comparison. op is one of > >= < <= == = !=; quoted tells that value
// stood in quotes, which are taken off.
type Leaf[T any] func(name, op, value string, quoted bool) (func(T) bool, error)

// Parse reads a condition.
func Parse[T any](s string, leaf Leaf[T]) (func(T) bool, error) {
	tokens, err := lex(s)
	if err != nil {
		return nil, err
	}
	p := &parser[T]{tokens: tokens, leaf: leaf}
	e, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("unexpected %q", p.tokens[0])
	}
	return e, err
}

// parser reads: or := and {("or"|"||") and}; and := not {("and"|"&&") not};
// not := ("not"|"!") not | "(" or ")" | name op value.
type parser[T any] struct {
	tokens []string
	depth  int
	leaf   Leaf[T]
}

func lex(s string) ([]string, error) {
	var tokens []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		n := 0
		for n < len(s) && (s[n] == '_' || s[n] == '.' || s[n] == '-' || s[n] == '+' || s[n] >= '0' && s[n] <= '9' || s[n]|32 >= 'a' && s[n]|32 <= 'z' || s[n] >= 0x80) {
			n++
		}
		if n == 0 {
			n = 1
			if q := s[0]; q == '"' || q == '\'' {
				end := strings.IndexByte(s[1:], q)
				if end < 0 {
					return nil, fmt.Errorf("a text begins with %c and does not end", q)
				}
				n = end + 2
			} else if len(s) > 1 && strings.Contains(" >= <= == != && || ", " "+s[:2]+" ") {
				n = 2
			} else if !strings.ContainsRune("<>=!()", rune(s[0])) {
				return nil, fmt.Errorf("unexpected %q", s[:1])
			}
		}
		tokens = append(tokens, s[:n])
		s = s[n:]
	}
	return tokens, nil
}

func (p *parser[T]) take(words ...string) bool {
	for _, w := range words {
		if len(p.tokens) > 0 && p.tokens[0] == w {
			p.tokens = p.tokens[1:]
			return true
		}
	}
	return false
}

func (p *parser[T]) or() (func(T) bool, error) {
	left, err := p.and()
	for err == nil && p.take("or", "||") {
		var right func(T) bool
		l := left
		right, err = p.and()
		if err == nil {
			left = func(r T) bool { return l(r) || right(r) }
		}
	}
	return left, err
}

func (p *parser[T]) and() (func(T) bool, error) {
	left, err := p.not()
	for err == nil && p.take("and", "&&") {
		var right func(T) bool
		l := left
		right, err = p.not()
		if err == nil {
			left = func(r T) bool { return l(r) && right(r) }
		}
	}
	return left, err
}

func (p *parser[T]) not() (func(T) bool, error) {
	p.depth++
	if p.depth > 100 {
		return nil, fmt.Errorf("more than 100 conditions inside one another")
	}
	defer func() { p.depth-- }()
	if p.take("not", "!") {
		e, err := p.not()
		if err != nil {
			return nil, err
		}
		return func(r T) bool { return !e(r) }, nil
	}
	if p.take("(") {
		e, err := p.or()
		if err == nil && !p.take(")") {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return e, err
	}
	return p.compare()
}

func (p *parser[T]) compare() (func(T) bool, error) {
	if len(p.tokens) < 3 {
		return nil, fmt.Errorf("want NAME OPERATOR VALUE, have %q", strings.Join(p.tokens, " "))
	}
	name := p.tokens[0]
	op := p.tokens[1]
	value := p.tokens[2]
	p.tokens = p.tokens[3:]
	switch op {
	case ">", ">=", "<", "<=", "==", "=", "!=":
	default:
		return nil, fmt.Errorf("%q is no operator (have > >= < <= == !=)", op)
	}
	quoted := strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'")
	return p.leaf(name, op, strings.Trim(value, `"'`), quoted)
}

// Compare compares two numbers with an operator.
func Compare(a float64, op string, b float64) bool {
	switch op {
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case "!=":
		return a != b
	}
	return a == b
}

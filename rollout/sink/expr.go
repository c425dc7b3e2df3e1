package sink

import (
	"fmt"
	"strconv"
	"strings"

	"hermes/trajectory"
)

// expr is a condition on a record.
type expr func(*trajectory.Record) bool

// parser reads: or := and {("or"|"||") and}; and := not {("and"|"&&") not};
// not := ("not"|"!") not | "(" or ")" | name op value.
type parser struct {
	tokens []string
	depth  int
}

func parseExpr(s string) (expr, error) {
	tokens, err := lex(s)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	e, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("unexpected %q", p.tokens[0])
	}
	return e, err
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

func (p *parser) take(words ...string) bool {
	for _, w := range words {
		if len(p.tokens) > 0 && p.tokens[0] == w {
			p.tokens = p.tokens[1:]
			return true
		}
	}
	return false
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.take("or", "||") {
		var right expr
		l := left
		if right, err = p.and(); err == nil {
			left = func(r *trajectory.Record) bool { return l(r) || right(r) }
		}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.take("and", "&&") {
		var right expr
		l := left
		if right, err = p.not(); err == nil {
			left = func(r *trajectory.Record) bool { return l(r) && right(r) }
		}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if p.depth++; p.depth > 100 {
		return nil, fmt.Errorf("more than 100 conditions inside one another")
	}
	defer func() { p.depth-- }()
	if p.take("not", "!") {
		e, err := p.not()
		if err != nil {
			return nil, err
		}
		return func(r *trajectory.Record) bool { return !e(r) }, nil
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

func (p *parser) compare() (expr, error) {
	if len(p.tokens) < 3 {
		return nil, fmt.Errorf("want NAME OPERATOR VALUE, have %q", strings.Join(p.tokens, " "))
	}
	name, op, value := p.tokens[0], p.tokens[1], p.tokens[2]
	p.tokens = p.tokens[3:]
	switch op {
	case ">", ">=", "<", "<=", "==", "=", "!=":
	default:
		return nil, fmt.Errorf("%q is no operator (have > >= < <= == !=)", op)
	}
	if text := textField(name); text != nil {
		want := strings.Trim(value, `"'`)
		if op != "==" && op != "=" && op != "!=" {
			return nil, fmt.Errorf("%s can only be compared with == and !=", name)
		}
		return func(r *trajectory.Record) bool { return (text(r) == want) == (op != "!=") }, nil
	}
	number, err := numberField(name)
	if err != nil {
		return nil, err
	}
	want, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is compared with %q, which is no number", name, value)
	}
	return func(r *trajectory.Record) bool {
		have, ok := number(r)
		return ok && compare(have, op, want) // what was not measured fulfils no condition
	}, nil
}

func compare(a float64, op string, b float64) bool {
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

func textField(name string) func(*trajectory.Record) string {
	switch name {
	case "outcome":
		return func(r *trajectory.Record) string { return string(r.Outcome) }
	case "finish":
		return func(r *trajectory.Record) string { return string(r.Stop.Reason) }
	case "model":
		return func(r *trajectory.Record) string { return r.Model }
	}
	return nil
}

func numberField(name string) (func(*trajectory.Record) (float64, bool), error) {
	always := func(f func(*trajectory.Record) float64) func(*trajectory.Record) (float64, bool) {
		return func(r *trajectory.Record) (float64, bool) { return f(r), true }
	}
	if part, ok := strings.CutPrefix(name, "metrics."); ok {
		return scored(func(s *trajectory.Score) map[string]float64 { return s.Metrics }, part), nil
	}
	if part, ok := strings.CutPrefix(name, "rewards."); ok {
		return scored(func(s *trajectory.Score) map[string]float64 { return s.Parts }, part), nil
	}
	switch name {
	case "reward":
		return func(r *trajectory.Record) (float64, bool) {
			if r.Score == nil {
				return 0, false
			}
			return r.Score.Reward, true
		}, nil
	case "turns":
		return always(func(r *trajectory.Record) float64 { return float64(r.Trace.Turns()) }), nil
	case "tokens":
		return always(func(r *trajectory.Record) float64 { return float64(r.Usage.Completion) }), nil
	case "seconds":
		return always(func(r *trajectory.Record) float64 { return r.Seconds }), nil
	case "attempt":
		return always(func(r *trajectory.Record) float64 { return float64(r.Attempt) }), nil
	}
	return nil, fmt.Errorf("%q is unknown (have reward, rewards.NAME, metrics.NAME, turns, tokens, seconds, attempt, outcome, finish, model)", name)
}

func scored(m func(*trajectory.Score) map[string]float64, part string) func(*trajectory.Record) (float64, bool) {
	return func(r *trajectory.Record) (float64, bool) {
		if r.Score == nil {
			return 0, false
		}
		v, ok := m(r.Score)[part]
		return v, ok
	}
}

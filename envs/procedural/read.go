package procedural

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"hermes/internal/late"
)

// longest is the length in bytes beyond which no answer is looked at.
const longest = 100_000

// separate splits an answer into its words: white space and the signs of lists lie
// between them.
func separate(answer string) []string {
	return strings.FieldsFunc(answer, func(c rune) bool { return strings.ContainsRune(" ,;|[](){}\"'\t\r\n", c) })
}

// whole reads a list of whole numbers, however it is set apart.
func whole(answer string) ([]int, error) {
	var out []int
	for _, word := range separate(answer) {
		n, err := strconv.Atoi(strings.Replace(word, "−", "-", 1))
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number", clip(word))
		}
		out = append(out, n)
	}
	return out, nil
}

var (
	// named is what may stand before a number: "x =", "Area:".
	named = late.Regexp(`^\p{L}[\p{L} ]*[=:]\s*`)
	// counted is a number and what it counts.
	counted = late.Regexp(`^([-−+]?[\d.,/]*\d)\s*(\p{L}[\p{L} ]*(?:\^\{?2\}?|²)?)$`)
)

// lone takes a number out of "x = 12 days", if days is one of the units.
func lone(answer string, units ...string) string {
	answer = named.ReplaceAllString(strings.TrimSpace(answer), "")
	if m := counted.FindStringSubmatch(answer); m != nil && slices.Contains(units, strings.ToLower(m[2])) {
		return m[1]
	}
	return answer
}

// number is a check for one whole number, with its unit or without.
func number(want int, units ...string) func(string) error {
	return func(answer string) error { return exactly([]int{want})(lone(answer, units...)) }
}

// exactly is a check for a list of whole numbers that has one right form.
func exactly(want []int) func(string) error {
	return func(answer string) error {
		got, err := whole(answer)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%q is not the answer", clip(answer))
		}
		return nil
	}
}

var (
	// pair is the beginning of a pair: a name and = or :.
	pair = late.Regexp(`["']?(\pL\w*)["']?\s*[=:]`)
	// bullet begins a line of a list.
	bullet = late.Regexp(`(?m)^[ \t]*[-*•][ \t]+`)
)

// between are the signs of lists around a pair.
const between = " \t\r\n,;\"'{}[]()"

// pairs reads NAME = VALUE pairs, one for each of names, in any order, set apart by
// commas, blanks or lines. JSON objects are read too.
func pairs(answer string, names []string) (map[string]string, error) {
	out := map[string]string{}
	answer = bullet.ReplaceAllString(answer, "")
	begins := pair.FindAllStringSubmatchIndex(answer, -1)
	if begins == nil {
		return nil, fmt.Errorf("%q: want a name, = and a value", clip(answer))
	}
	if before := strings.Trim(answer[:begins[0][0]], between); before != "" {
		return nil, fmt.Errorf("%q: want a name, = and a value", clip(before))
	}
	for i, m := range begins {
		end := len(answer)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		name, value := answer[m[2]:m[3]], strings.Trim(strings.TrimSuffix(strings.TrimSpace(answer[m[1]:end]), " and"), between)
		if _, twice := out[name]; twice || !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q is not asked for, or is given twice", clip(name))
		}
		out[name] = value
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("%d of %d values", len(out), len(names))
	}
	return out, nil
}

// rational reads a number exactly: 3, -0.5, 7/2.
func rational(text string) (*big.Rat, error) {
	text = strings.Replace(strings.ReplaceAll(text, " ", ""), "−", "-", 1)
	if len(text) > 100 || strings.ContainsAny(text, "eEpP_xXbBoO") {
		return nil, fmt.Errorf("%q is no number", clip(text))
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("%q is no number", clip(text))
	}
	return v, nil
}

// oneWord is a check for a word; case, a full stop, quotes and brackets around it do not
// count.
func oneWord(want string) func(string) error {
	return func(answer string) error {
		if !strings.EqualFold(strings.Trim(strings.TrimSpace(answer), ".\"'“”()[]"), want) {
			return fmt.Errorf("%q is not the answer", clip(answer))
		}
		return nil
	}
}

// letters are names of things: A, B, C …
func letters(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(rune('A' + i))
	}
	return out
}

package procedural

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
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

// pairs reads NAME = VALUE pairs, one for each of names, in any order. JSON objects are
// read too.
func pairs(answer string, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, piece := range strings.FieldsFunc(strings.TrimSpace(answer), func(c rune) bool { return strings.ContainsRune(",;\n{}", c) }) {
		if strings.TrimSpace(piece) == "" {
			continue
		}
		at := strings.IndexAny(piece, "=:")
		if at < 0 {
			return nil, fmt.Errorf("%q: want a name, = and a value", clip(piece))
		}
		name, value := strings.Trim(piece[:at], " \t\r\"'"), strings.Trim(piece[at+1:], " \t\r\"'")
		if _, twice := out[name]; twice || !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q is not asked for, or stands twice", clip(name))
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

// oneWord is a check for a word; case and a full stop do not count.
func oneWord(want string) func(string) error {
	return func(answer string) error {
		if !strings.EqualFold(strings.TrimSuffix(strings.TrimSpace(answer), "."), want) {
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

package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"hermes/parsers/tokenizer/pattern"
	"hermes/parsers/tokenizer/unidata"
)

// TestCuttingInOnePass compares the quick ways to cut with the general one.
func TestCuttingInOnePass(t *testing.T) {
	p, err := pattern.Compile(`[0-9][0-9]|\p{P}+|a*`, pattern.Oniguruma)
	if err != nil {
		t.Fatal(err)
	}
	var cuts []cutting
	for _, how := range []behavior{isolated, removed, contiguous} {
		cuts = append(cuts, cuttingFlag(unidata.Punct, how), cuttingFlag(unidata.Numeric, how), cuttingFlag(unidata.Space, how))
		for _, invert := range []bool{false, true} {
			cuts = append(cuts, cutting{find: finding(p), regex: p, how: how, invert: invert})
		}
	}
	pieces := func(c cutting, text string) (out []string) {
		if err := c.split(text, true, func(piece string) {
			if piece != "" {
				out = append(out, piece)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	r := rand.New(rand.NewPCG(7, 8))
	letters := []string{"a", "b", " ", "\n", "1", "23", ".", "!?", "é", "Ⅷ", "。", "\u00a0", "世", "\u3000"}
	for range 2000 {
		text := ""
		for range r.IntN(12) {
			text += letters[r.IntN(len(letters))]
		}
		for i, c := range cuts {
			general := c
			general.regex, general.runes = nil, nil
			if got, want := pieces(c, text), pieces(general, text); !slices.Equal(got, want) {
				t.Fatalf("cut %d (behavior %d, invert %v) of %q:\n got %q\nwant %q", i, c.how, c.invert, text, got, want)
			}
		}
	}
}

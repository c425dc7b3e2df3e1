package grade_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/envs/grade"
)

// TestQuick: a text that seems to have nothing to look for has nothing.
func TestQuick(t *testing.T) {
	pieces := strings.Split(`5|3.5|1,000|42|x|x_|x_{|α|$|m2|cm^2|m^{3}|}^2|) ^3|square|cubic|km3|ft2|in3|mi2|yd^{-1}|2|3|^|-|:|/|–|−|from|the answer|is|are|it|between|`+
		`Answer|answers|an|swer|choice|OPTION|the option is|would be|**|:|=|n't|antwort ist|respuesta es|risposta è|réponse est|答案是|正确|选|故选|정답은|ответ|anſwer|B|(C)|and|.`, "|")
	r := rand.New(rand.NewPCG(1, 3))
	all := 0
	for range 60_000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(pieces[r.IntN(len(pieces))])
			b.WriteString([]string{" ", "", "", "\n", "\t"}[r.IntN(5)])
		}
		differs, matched := grade.Quick(b.String())
		if differs != "" {
			t.Fatalf("%q: %s is not what its pattern finds", b.String(), differs)
		}
		all += matched
	}
	if all < 10_000 {
		t.Errorf("only %d matches: nothing is compared", all)
	}
}

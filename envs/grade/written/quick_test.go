package written_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/envs/grade/written"
)

// TestQuick: a text whose words say that no pattern can match is read as the patterns read it.
func TestQuick(t *testing.T) {
	pieces := strings.Split(`not|n't|isn't|can't|cannot|never|no longer|No|longer|hardly|scarcely|ſcarcely|nor|neither|rather than|anything but|everything|but|different from|differs from|`+
		`instead of|inſtead of|other than|except|excluding|unlike|unliKe|than|≠|!=|\ne|\neq|不是|不为|并非|而非|不等于|不选|NOT|Never|nothing|another|note|notX|knot|`+
		`do|doesn't|would|think|believe|say|doubt|I|we|rule out|Ruled out|ruling out|reject|diſcarded|excludes|eliminate|croſs out|option|value|root|highly|false|untrue|incorrect|wrong|mistaken|unlikely|impossible|true|likely|the case|right|that|if|when|to say|to claim|`+
		`unsure|it is unclear|not known if|better than|not sure|unable to tell|isn't certain|whether|can't say whether|if it|were|had been|all|every|all x|but|possibly|we|let's|exclude|disregard|I must|`+
		`the|answer|is|it|x|=|be|equal to|just|pick|(|**|"|$|\boxed{|\text{|minus|negative|Minus|minuſ|:|,|5|3.5|.|?|`+
		`iſ|was|ISN'T|are|looKs|looKs wrong|seems|must be|could|couldn't be|should be|may|did|has been|although|yet|though|it's|no|❌|→|=>|\text{|)|value|invalid|7 and|6 and A Half|6 and 1/3|AND|a half|one-half|one quarter|three Quarters|1/2`, "|")
	r := rand.New(rand.NewPCG(1, 2))
	var matched, behind, halves int
	for range 60_000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(pieces[r.IntN(len(pieces))])
			b.WriteString([]string{" ", " ", " ", "", "\n"}[r.IntN(5)])
		}
		text := b.String()
		want := written.DeniedSlowly(text)
		if got := written.Denied(text); got != want {
			t.Fatalf("%q: denied %v, want %v", text, got, want)
		}
		if want {
			matched++
		}
		wrong := written.DeniedBehindSlowly(text)
		if got := written.DeniedBehind(text); got != wrong {
			t.Fatalf("%q: denies what is before it %v, want %v", text, got, wrong)
		}
		if wrong {
			behind++
		}
		if got, want := written.Plain(text), written.Halved(text); got != want {
			t.Fatalf("%q: in digits %q, want %q", text, got, want)
		} else if got != text {
			halves++
		}
		if strings.ContainsAny(text, "<{`'") { // these are taken apart first
			continue
		}
		if got, want := written.Final(text), written.Spoken(text); got != want {
			t.Fatalf("%q is read as %q, want %q", text, got, want)
		}
	}
	t.Logf("%d deny, %d deny what is before them, %d have halves", matched, behind, halves)
	if matched < 1000 || behind < 500 || halves < 50 {
		t.Errorf("only %d texts deny, %d deny what is before them, %d have halves: nothing is compared", matched, behind, halves)
	}
}

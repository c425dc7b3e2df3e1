package grade_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/envs"
	"hermes/envs/grade"
)

type said3 struct {
	gold, answer string
	right        bool
}

func numbersTable(t *testing.T, list []said3) {
	t.Helper()
	for _, tt := range list {
		g, err := grade.Number(tt.gold)
		if err != nil {
			t.Fatalf("%s: %v", tt.gold, err)
		}
		s, err := g.Grade(t.Context(), envs.World{}, said(t, tt.answer))
		if err != nil || (s.Reward == 1) != tt.right {
			t.Errorf("%q for %s: %g (%s), %v, want right: %v", tt.answer, tt.gold, s.Reward, s.Detail, err, tt.right)
		}
	}
}

// Signs, digits and exponents in the characters that models write.
func TestNumberSigns(t *testing.T) {
	numbersTable(t, []said3{
		{"-3", "The answer is –3.", true}, {"3", "The answer is –3.", false}, {"3", "－3", false}, {"-3", "－3", true}, {"-3", "−3", true}, {"3", "−3", false},
		{"-3", "—3", true},
		{"3", "—3", false},
		{"-3", "Answer: —3", true},
		{"-3", "﹣3", true},
		{"-3", "‒3", true},
		{"-3", "‐3", true},
		{"-3", "x = ‑3", true},
		{"3", "the result—3", true},
		{"-3.5", "–3.5", true}, {"-0.5", "–½", true}, {"-5", "$–5", true}, {"-5", "–$5", true}, {"5", "–$5", false},
		{"4.5e-7", "4.5 × 10⁻⁷", true},
		{"10", "4.5 × 10⁻⁷", false},
		{"4.5e-7", "4.5·10⁻⁷", true},
		{"4.5e7", "4.5 × 10⁻⁷", false},
		{"4.5e-7", "4.5E-7", true},
		{"4.5e-7", "4.5e–7", true},
		{"4.5e-7", `4.5 \times 10^{-7}`, true},
		{"-4.5e-7", "−4.5 × 10⁻⁷", true}, {"1e6", "10⁶", true}, {"1000000", "1e6", true}, {"1000000", "1E+6", true}, {"6", "1e6", false},
		{"9", "3²", true},
		{"3", "3²", false},
		{"2", "3²", false},
		{"8", "2³", true},
		{"1024", "2^10", true},
		{"10", "2^10", false},
		{"1024", "2^{10}", true},
		{"0.25", "2^-2", true},
		{"0.25", "2⁻²", true},
		{"2.25", "1.5²", true},
		{"3", "３", true},
		{"3.5", "３．５", true},
		{"1234", "１，２３４", true},
		{"3", "٣", true},
		{"0.5", "½", true},
		{"3.5", "3½", true},
		{"0.75", "¾", true},
		{"12", "𝟏𝟐", true},
		{"50%", "５０％", true}, {"0.5", "50%", true}, {"50", "0.5%", false},
		{"42", "42 cm²", true}, {"42", "42 m³", true}, {"2", "42 cm²", false},
	})
}

// Hedges, denials, tags and units.
func TestNumberHedges(t *testing.T) {
	numbersTable(t, []said3{
		{"5", "The answer is not 5.", false},
		{"5", "Answer: not 5", false},
		{"7", "The answer is not 5 but 7.", true},
		{"5", "The answer isn't 5, it's 7.", false},
		{"7", "The answer isn’t 5, it’s 7.", true},
		{"7", "The answer is 7, not 5.", true},
		{"5", "The answer is 7, not 5.", false},
		{"7", "7 rather than 5", true},
		{"5", "It is not equal to 5", false},
		{"7", "There are 7 boxes. The answer is not 5.", false},
		{"5", "The answer is 5 or 7.", false},
		{"7", "The answer is 5 or 7.", false},
		{"7", "5 or 7", false},
		{"7", "either 5 or maybe 7", false},
		{"7", "$5$ or $7$", false},
		{"7", "5 dollars or 7 dollars", false},
		{"8", "5, 6, 7 or 8", false},
		{"7", "5, 6, 7", false},
		{"7", "5 and 7", false},
		{"7", `\boxed{5} or \boxed{7}`, false},
		{"7", `\boxed{5, 7}`, false},
		{"7", `\boxed{5 \text{ or } 7}`, false},
		{"7", "5或7", false},
		{"7", `It is not \boxed{5} but \boxed{7}`, true},
		{"5", `not \boxed{5}`, false},
		{"7", "#### 5 or 7", false},
		{"5", "#### 5 or 7", false},
		{"5", "#### 5", true},
		{"0.5", "1/2 or 0.5", true},
		{"0.5", "0.5 or 50%", true},
		{"12", "She has 5 and 7, for a total of 12.", true},
		{"15", "In 2020, 15 people came.", true},
		{"12", "It takes 5 or so hours; in all 12 miles", true},
		{"12", "5 + 7 = 12", true},
		{"5", "<answer>5</answer>", true},
		{"5", "<think>7</think> <answer>5</answer>", true},
		{"5", "<answer>5</answer> 7 was wrong", true},
		{"5", "<answer>5 or 7</answer>", false},
		{"7", "<answer>5</answer><answer>7</answer>", false},
		{"5", "`5`", true},
		{"5", `{"answer": 5}`, true},
		{"5", `{"answer": "5", "steps": 7}`, true},
		{"5", "**5**", true},
		{"5", "答案是5", true},
		{"5", "答案不是5", false},
		{"5 cm", "5 m", false},
		{"5 cm", "5 cm", true},
		{"5 cm", "5", true},
		{"5", "5 m", true},
		{"5 cm", "0.05 m", true},
		{"2 hours", "120 minutes", true},
		{"3 kg", "3 grams", false},
		{"400 cm^2", "4 m^2", false},
		{"5 apples", "5 pears", true},
		{"5 cm", `\boxed{5\text{ m}}`, false}, {"5 cm", `\boxed{5\text{ cm}}`, true},
	})
}

// The same number is right in any two notations, another one in none.
func TestNumbersInNotations(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	forms := func(n int64, places int) []string {
		x := new(big.Rat).SetFrac64(n, []int64{1, 10, 100, 1000}[places])
		dec := x.FloatString(places)
		list := []string{
			dec, dec + "0", "The answer is " + dec + ".", "<answer>" + dec + "</answer>", `\boxed{` + dec + `}`, "#### " + dec,
			"**" + dec + "**", "$" + dec + "$", "so x = " + dec,
			strings.Replace(dec, "-",
				"–", 1), strings.Replace(dec, "-",
				"−", 1), strings.Replace(dec, "-",
				"－", 1), fmt.Sprintf("%de-%d",
				n, places), fmt.Sprintf("%d × 10⁻%c", n, []rune("⁰¹²³")[places]), fmt.Sprintf(`%d \times 10^{-%d}`, n, places), `{"answer": ` + dec + `}`,
		}
		if !strings.Contains(dec, ".") {
			list[1] = dec + ".0"
		}
		return list
	}
	var list []said3
	for range 400 {
		n := r.Int64N(20001) - 10000
		m := r.Int64N(20001) - 10000
		places := r.IntN(4)
		other := r.IntN(4)
		xs, ys := forms(n, places), forms(m, other)
		x, y := new(big.Rat).SetFrac64(n, []int64{1, 10, 100, 1000}[places]), new(big.Rat).SetFrac64(m, []int64{1, 10, 100, 1000}[other])
		close := new(big.Rat).Abs(new(big.Rat).Sub(x, y)).Cmp(new(big.Rat).Mul(big.NewRat(1, 1_000_000), new(big.Rat).Abs(x))) <= 0
		gold := x.FloatString(places)
		list = append(list, said3{gold, xs[r.IntN(len(xs))], true}, said3{gold, ys[r.IntN(len(ys))], close})
		if n != 0 {
			list = append(list, said3{gold, strings.TrimPrefix(forms(-n, places)[r.IntN(8)], " "), false})
		}
	}
	numbersTable(t, list)
}

// A number in a relation, a range, a date, a time or a name is not that number.
func TestNumbersInOtherThings(t *testing.T) {
	numbersTable(t, []said3{
		{"5", ">5", false},
		{"5", "> 5", false},
		{"5", "<5", false},
		{"5", "≥5", false},
		{"5", "±5", false},
		{"5", `\pm 5`, false},
		{"5", `\boxed{\pm 5}`, false},
		{"5", "+/-5", false},
		{"5", "5!", false},
		{"5", `\boxed{5!}`, false},
		{"5", "3-5", false},
		{"5", "2–5", false},
		{"3", "3-5", false},
		{"5", "1:5", false},
		{"5", "1 : 5", false},
		{"5", "2024-01-05", false},
		{"5", "05/01/2024", false},
		{"5", "Answer: 3-5", false},
		{"5", `\boxed{3-5}`, false},
		{"12", "pages 10-12", true},
		{"5", "#### 3-5", false},
		{"3", "#### 3-5", false},
		{"5", "#### 5!", false},
		{"5", "#### ±5", false},
		{"5", "#### >5", false},
		{"5", "#### at least 5", false},
		{"1", "#### 1k", false},
		{"18", "#### $18", true},
		{"-3", "#### -3", true},
		{"-3", "#### - 3", true},
		{"1234", "#### 1 234", true},
		{"25", "√25", false}, {"25", `\sqrt{25}`, false}, {"25", `\boxed{\sqrt{25}}`, false}, {"25", "sqrt(25)", false},
		{"1", "1k", false},
		{"1000", "1k", true},
		{"1", "1 million", false},
		{"1000000", "1 million", true},
		{"2500000", "2.5 million", true},
		{"1000", "1 thousand", true},
		{"1e9", "1 billion", true},
		{"1", "1 km", true},
		{"10", "0x10", false}, {"16", "0x10", true}, {"3", "x3", false}, {"3", "x₃", false}, {"3", "x_3", false}, {"5", "x=5", true}, {"3", "x3 = 3", true},
		{"234", "1 234", false},
		{"1234", "1 234", true},
		{"1234", "1'234", true},
		{"1234", "1’234", true},
		{"1234", "1_234", true},
		{"1234567", "1 234 567", true},
		{"234", "1'234", false},
		{"234", "1_234", false},
		{"1234.5", "1 234.5", true},
		{"-3", "- 3", true},
		{"3", "- 3", false},
		{"-3", "The answer is - 3.", true},
		{"-3", "Answer: - 3", true},
		{"2", "5 - 3 = 2", true},
		{"3", "- apples: 3", true},
		{"-3", "− 3", true},
		{"5", "The answer is at least 5.", false},
		{"5", "less than 5", false},
		{"5", "almost 5", false},
		{"5", "I don't think the answer is 5.", false},
		{"5", "It's false that the answer is 5.", false},
		{"5", "no longer 5", false},
		{"5", "5+3", false},
		{"3", "5+3", false},
		{"3", "5 * 3", false},
		{"8", "5 + 3 = 8", true},
		{"5", "5 or more", false},
		{"5", "It's over 5", false},
		{"7", "5 bzw. 7", false},
		{"15", "her count goes from 10 to 15.", true},
		{"7", "The answer is 5. No, 7.", true},
		{"5", "<b>5</b>", true},
		{"5", "Step 2: 5", true},
		{"30", "10:30", false},
		{"12345", "It took 12 345 steps", true},
		{"1500", "1.5k", true},
		{"5", "x_1 = 5", true},
		{"5", "- A\n- 5", true},
		{"5", "5 to 7", false},
		{"7", "5 to 7", false},
		{"7", "5 oder 7", false},
		{"7", "5; 7", false},
		{"7", "5 vs 7", false},
		{"7", "5, perhaps 7", false},
		{"5", "The answer is 5!", true},
		{"5", "It's 5!", true},
		{"5", "She has 10 - 5 = 5", true},
		{"5", "So 5 pm", true},
		{"5", "Total: 5", true},
		{"5", "Total:5", true},
		{"5", "-> 5", true},
		{"5", "=> 5", true},
		{"5", "→5", true},
		{"5", "==> 5", true},
		{"5", "x >= 3 so x = 5", true}, {"60", "If he ran more than 30, he ran 60", true}, {"18", "16-3-4=9 and 9*2=18", true},
	})
}

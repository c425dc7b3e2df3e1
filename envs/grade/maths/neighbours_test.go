package maths_test

import (
	"strings"
	"testing"
)

// Neighbours of the forms above.
func TestNeighbours(t *testing.T) {
	judge(t, []form{
		{"5", "5 and/or 7", false},
		{"5", "5; 7", false},
		{"5", "The answer could be 5, 6, or 7.", false},
		{"7", "Possible answers: 5, 7", false},
		{"5", "The answer is 5. Or 7.", false},
		{"7", "The answer is 5. Or 7.", false},
		{"5", "The answer is 5. Alternatively, 7.", false},
		{"5", "The answer is anything but 5.", false},
		{"5", "x ≠ 5", false},
		{"5", `$x \ne 5$`, false},
		{"5", "The answer is: 5 or 7?", false},
		{"5", "Answer: 5 | 7", false},
		{"1500", "1.5e3", true},
		{"0.0025", `\boxed{2.5 \times 10^{-3}}`, true},
		{`\frac{4}{33}`, `0.\overline{12}`, true},
		{`\frac{1}{6}`, `\boxed{0.1\bar{6}}`, true},
		{"3.14", `$\pi \approx 3.14$`, true},
		{`\pi`, `$\pi \approx 3.14$`, true},
		{`\mathbf{(C)}`, `\boxed{C}`, true},
		{"C", `\boxed{\mathbf{C}}`, true},
		{"C", `\boxed{\textbf{C}}`, true},
		{"C", `\boxed{\text{C.}}`, true},
		{"C", `\boxed{\text{(C) }}`, true},
		{`\textbf{(C)}\ 15`, `\boxed{15}`, true},
		{`\text{(C) } 15`, `15`, true},
		{`\text{(C)}`, `C`, true},
		{"7", `\boxed{\colorbox{yellow}{7}}`, true},
		{"7", `\boxed{\mathcolor{red}{7}}`, true},
		{"7", `\boxed{{\bf 7}}`, true},
		{"7", `\boxed{\mathbf{7}}`, true},
		{"7", `\boxed{\underline{7}}`, true},
		{"7", `\boxed{\displaystyle 7}`, true},
		{"7", `\boxed{\boldsymbol{7}}`, true},
		{"5 km", "5 miles", false},
		{`30^\circ`, "30", true},
		{"1000", `1{,}000`, true},
		{"1000", `1\,000`, true},
		{"1000", "1 000", true},
		{"6", `\approx 6`, true},
		{"6", "≈ 6", true},
		{"6", "approximately 6", true},
		{"6", `x \approx 6.0`, true},
		{"6", `\boxed{\approx 6}`, true},
		{"-3", "The answer is minus 3.", true},
		{"3", "The answer is minus 3.", false},
		{"-3", "negative 3", true},
		{"3", "Answer: negative 3", false},
		{"7", "10 minus 3 is 7", true},
		{`\emptyset`, `\boxed{\{ \}}`, true},
		{"1,2", "$x=1$, $x=2$", true},
		{"1,2", `\boxed{x=1 \text{ or } x=2}`, true},
		{"1,2", `x = 1 \text{ and } x = 2`, true},
		{"-1,1", `$x = \pm 1$`, true},
		{"2", "x = 2", true},
		{"5 cm", `\boxed{5 \, \text{m}}`, false},
		{"5 cm", `$5\ \text{m}$`, false},
		{"5\\text{ cm}", `$5$ m`, false},
		{"5 kg", "5 grams", false},
		{"5 hours", "5 minutes", false},
		{"5 seconds", "5 hours", false},
		{"5 m", "5 cm", false},
		{"500 cm", "5 m", true},
		{"5 km", "5000 m", true},
		{"$5", "5 dollars", true},
		{"50%", "0.5", true},
		{"50%", `50\%`, true},
		{"50%", "5%", false},
		{"50%", "½", true},
		{"0.5%", "0.5", true},
		{"20%", "1/5", true},
		{"20%", "0.2", true},
		{"20%", "2", false},
		{"10^{-7}", "10⁻⁷", true},
		{"10^{-7}", "1e-7", true},
		{"10^{-7}", "1e7", false},
		{"2^{10}", "1024", true},
		{"x^{10}", "x^10", true},
		{"6", "6 (six)", true},
		{"6", "six", false},
		{"6", "= 6", true},
		{"6", "**6**.", true},
		{"6", "Answer: **6**", true},
		{"6", "Final answer: `6`", true},
		{"6", "The final answer is $\\boxed{6}$. I hope it is correct.", true},
		{"(1,2)", "<answer>(1,2)</answer>", true},
		{"\\frac{1}{2}", "<answer>\\frac{1}{2}</answer>", true},
		{"6", "<answer>x = 6</answer>", true},
		{"6", "<answer> 6 apples </answer>", true},
		{"6", "<answer>$6$.</answer>", true},
		{"6", "</think><answer>6</answer>", true},
		{"6", "<answer></answer>", false},
		{"6", "6 <answer>7</answer>", false},
	})
}

// Lists without an "or" between them, in any punctuation, tongue and order.
func TestSeveralAnswers(t *testing.T) {
	for _, answer := range []string{
		"Answer: 5; 7", "Answer: 5\n7", "Answer: 5 to 7", "The answer is 5, perhaps 7", "5, alternatively 7", "5 otherwise 7", "5 vs 7", "5 vs. 7", "5 versus 7", "5 resp. 7", "5 oder 7", "5 bzw. 7", "5 und 7", "5 et 7", "5 plus 7", "5 as well as 7", "5 ou 7", "5 o 7",
		"possibly 5, possibly 7", "5 unless it is 7", "5 if x>0, 7 if x<0", "The answer is 5 if x > 0 and 7 otherwise.", "Answer: $5$; $7$", "Answer: $5$\n$7$", "The answer is $5$ to $7$.",
		"The answer is 5 through 7.", "between 5 and 7", "The answer is between 5 and 7.", "from 5 to 7", "5-7", "5–7", "Answer: 5 - 7", "The answer is 5, maybe even 7.", "5, or else 7", "The answer is 5 vs. 7.", "The answer is 5 unless it is 7.",
		"<answer>5</answer><answer>7</answer>",
	} {
		judge(t, []form{{"5", answer, false}, {"7", answer, false}})
	}
	judge(t, []form{
		{"5", "The answer is 5\n\n7 of them were red.", true},
		{"5", "Answer: 5\nStep 7 showed it.", true},
		{"12", "The distance from 5 to 7 is short. The answer is 12.", true},
		{"5", "If x > 0, the answer is 5.", true},
		{"5", "The answer is 5 to the nearest integer.", true},
		{"5", "The answer is 5; see line 7 above.", true},
		{"5,7", "Answer: 5; 7", true},
		{"5,7", "Answer:\n5\n7", true},
		{"-2", "5-7", true},
		{"5", "7 vs. 9 are the teams. The answer is 5.", true},
		{"5", "Perhaps 7 is tempting, but the answer is 5.", true},
	})
}

// A denial may stand far before the answer, or behind it.
func TestDenialsFarAway(t *testing.T) {
	judge(t, []form{
		{"5", "I don't think the answer is 5.", false},
		{"5", "I do not believe that the answer is 5.", false},
		{"5", "It's false that the answer is 5.", false},
		{"5", "It is not true that the answer is $5$.", false},
		{"5", "I doubt that the answer is 5.", false},
		{"5", "The answer is no longer 5.", false},
		{"5", "The answer is hardly 5.", false},
		{"5", "The answer is wrong if it is 5; it is 7.", false},
		{"5", "The answer is 5? No, 7.", false},
		{"7", "The answer is 5? No, 7.", true},
		{"7", "The answer is 5. No, wait, 7.", true},
		{"5", "The answer is 5. No, wait, 7.", false},
		{"7", "The answer is 5. Actually, it is 7.", true},
		{"7", "I don't think the answer is 5. It is 7.", true},
		{"5", "I don't think so. The answer is 5.", true},
		{"5", "I don't know why, but the answer is 5.", true},
		{"5", "It's not hard: the answer is 5.", true},
		{"5", "There is no doubt that the answer is 5.", true},
		{"5", "I have no doubt the answer is 5.", true},
		{"5", "The answer is 5. No 7s were found.", true},
		{"5", "The answer is 5. Actually 7 people tried it.", true},
		{"5", "The answer is 5. No other value works for n = 7.", true},
		{"5", "No, the answer is 5.", true},
	})
}

// A bound, or a value that is nearly reached, is no value.
func TestBounds(t *testing.T) {
	for _, words := range []string{"at least", "less than", "greater than", "up to", "almost", "more than", "fewer than", "at most", "no more than", "not less than", "nearly", "over", "under", "below", "above", "smaller than", "larger than", "bigger than", "no less than"} {
		for _, dress := range []string{"%s 5", "The answer is %s 5.", "Answer: %s $5$", "\\boxed{\\text{%s } 5}", "<answer>%s 5</answer>", "It is %s 5"} {
			judge(t, []form{{"5", strings.Replace(dress, "%s", words, 1), false}})
		}
	}
	judge(t, []form{
		{"5", "5 or more", false},
		{"5", "The answer is 5 or less.", false},
		{"5", "5 at most", false},
		{"5", "The answer is 5 or so.", true},
		{"5", "She needs at least 5 of them, so the answer is 5.", true},
		{"5", "The answer is 5, which is more than 3.", true},
		{"5", "It is at least 3. The answer is 5.", true},
		{"5", "The least value is 5", true},
		{"5", "The answer is about 5.", true},
		{"5", "approximately 5", true},
		{"5", "This is 5 more than 3, that is 5", true},
		{"5", "The number greater than 4 and less than 6 is 5.", true},
		{"at least 5", "at least 5", true},
		{"x > 5", "$x > 5$", true},
	})
}

// Powers, volumes, money, forces and angles are units too.
func TestMoreUnits(t *testing.T) {
	judge(t, []form{
		{"5 cm^2", "5 cm", false}, {`5\text{ cm}^2`, `5\text{ cm}^3`, false}, {"5 m²", "5 m³", false}, {"5 square meters", "5 meters", false}, {"5 cubic meters", "5 square meters", false},
		{"5 L", "5 mL", false}, {"5 liters", "5 gallons", false}, {`5 \text{ N}`, `5 \text{ kN}`, false}, {"5 USD", "5 EUR", false}, {`\$5`, "€5", false}, {`\$5`, "5 cents", false}, {`30^\circ`, "30 rad", false},
		{`30^\circ`, "30 radians", false}, {"5 £", "5 €", false}, {"£5", `\boxed{\$5}`, false}, {`\$5`, "The answer is €5.", false}, {`\$5`, "The answer is 5 cents.", false}, {"5 J", "5 kJ", false}, {"5 W", "5 kW", false},
		{"5 m/s", "5 km/h", false}, {"5 mph", "5 km/h", false}, {"5 Hz", "5 kHz", false}, {"5 tons", "5 kg", false}, {"5 ounces", "5 pounds", false}, {"5 units^2", "5 units", false},
		{"5 cm^2", "5 cm^2", true}, {"5 cm^2", "5 square centimeters", true}, {"5 cm^2", "5 cm²", true}, {"5 cm^2", `\boxed{5\text{ cm}^2}`, true}, {"5 cm^2", "5", true}, {"5 m^3", `$5\,\mathrm{m}^3$`, true},
		{"5 L", "5000 mL", true}, {"5 L", "5 liters", true}, {"5 USD", "5 dollars", true}, {`\$5`, "5 USD", true}, {`\$5`, "500 cents", true}, {`\$5`, "5", true}, {"€5", "5 euros", true}, {`\$5`, "The answer is \\$5.", true}, {`\$5`, "$5", true},
		{`5 \text{ kN}`, `5000 \text{ N}`, true}, {`30^\circ`, "30 degrees", true}, {`30^\circ`, "30°", true}, {`30^\circ`, "30", true}, {"5 h", "300 min", true}, {"5 hours", "300 min", true}, {"2 rad", "2", true}, {"2 rad", "2 radians", true},
		{"5 square meters", "50000 cm^2", true}, {"10000 cm^2", "1 m^2", true}, {"5N", "5N", true}, {`5\pi \text{ cm}^2`, `5\pi \text{ cm}`, false}, {`5\pi \text{ cm}^2`, `5\pi`, true}, {"5 square units", "5", true}, {"3.14", "The answer is 3.14 to 2 decimal places.", true}, {"5L", "5L", true},
	})
}

// What else a fresh look found.
func TestMoreForms(t *testing.T) {
	judge(t, []form{
		{`\textbf{(A) }12`, `\boxed{\textbf{(B) }12}`, false}, {`\textbf{(A) }12`, `\boxed{\textbf{(A) }12}`, true}, {`\textbf{(A) }12`, `\boxed{\textbf{(A)}}`, true}, {`\textbf{(A) }12`, `\boxed{\text{(A)}\ 12}`, true},
		{`\textbf{(A) }12`, `\boxed{\textbf{(B)}}`, false}, {`\textbf{(A) }12`, `\boxed{\textbf{(A) }13}`, false},
		{`\sin{2x}`, `\boxed{\sin{2}x}`, false}, {`\sin{2x}`, `\boxed{\sin 2x}`, true}, {`\sin{2x}`, `\boxed{\sin(2x)}`, true}, {`\cos{2\pi}`, `\boxed{\cos{2}\pi}`, false}, {`\sin{2x}`, `\boxed{\sin(2)x}`, false}, {`\sin 2x`, `\boxed{x\sin 2}`, false},
		{"∅", "no solutions", true}, {"∅", `\boxed{\text{no solution}}`, true}, {`\emptyset`, "no solutions", true}, {`\emptyset`, `\boxed{\text{no solution}}`, true}, {`\emptyset`, "There is no solution.", true}, {`\emptyset`, "The answer is no real solutions.", true},
		{`\emptyset`, `\boxed{\text{No real solutions}}`, true}, {`\text{no solution}`, `\boxed{\emptyset}`, true}, {`\text{no solution}`, `\text{No solutions}`, true}, {`\emptyset`, "There is no solution other than 3", false}, {`\emptyset`, "no idea", false}, {`\emptyset`, "0", false}, {"3", "no solution", false},
		{"4.5e-7", "4.5 x 10^-7", true}, {"4.5e-7", "The answer is 4.5 x 10^-7.", true}, {"4.5e7", "4.5 X 10^7", true}, {"4.5x", "4.5 x", true},
		{"-3", "⁻3", true}, {"3", "⁻3", false}, {"-3", "The answer is ⁻3.", true}, {"10^{-3}", "10⁻³", true},
		{"1234", "1’234", true}, {"1234", "1'234", true}, {"1234", "The answer is 1'234.", true}, {"1234567", "1’234’567", true}, {"6", "[ANSWER]6[/ANSWER]", true}, {"6", "[answer] 6 [/answer]", true}, {"7", "[ANSWER]6[/ANSWER]", false},
	})
}

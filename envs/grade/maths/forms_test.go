package maths_test

import (
	"testing"

	"hermes/envs/grade/maths"
)

// form is a gold answer, an answer and the verdict.
type form struct {
	gold, answer string
	right        bool
}

func judge(t *testing.T, list []form) {
	t.Helper()
	for _, f := range list {
		if r := maths.Equal(f.gold, f.answer, maths.Options{Relations: true}); r.Equal != f.right {
			t.Errorf("%q for %q: %v (read %q and %q)", f.answer, f.gold, r.Equal, r.Gold, r.Answer)
		}
	}
}

// An answer that denies the gold answer, or names several, is wrong; a denial of another
// one is no hedge.
func TestHedgesAndDenials(t *testing.T) {
	judge(t, []form{
		{"5", "The answer is not 5.", false},
		{"5", "Answer: not 5", false},
		{"7", "The answer is not 5 but 7.", true},
		{"5", "The answer is not 5 but 7.", false},
		{"5", "The answer is 5 or 7.", false},
		{"7", "The answer is 5 or 7.", false},
		{"5", "The answer is $5$ or $7$.", false},
		{"7", "The answer is $5$ or $7$.", false},
		{"5", "Answer: 5 or 7", false},
		{"5", "The answer isn't 5, it's 7.", false},
		{"7", "The answer isn't 5, it's 7.", true},
		{"7", "The answer isn’t 5, it’s 7.", true},
		{"5", "The answer is 5, not 7.", true},
		{"7", "The answer is 5, not 7.", false},
		{"5", "5, 6, 7 or 8", false},
		{"8", "5, 6, 7 or 8", false},
		{"5", "The answer is 5, 6, 7 or 8.", false},
		{"8", "The answer is 5, 6, 7 or 8.", false},
		{"5", "It is either 5 or 7.", false},
		{"7", "It is either 5 or 7.", false},
		{"7", "I think it could be 5 or maybe 7", false},
		{"7", "It is not 5. It is 7.", true},
		{"5", "It is not 5.", false},
		{"5", "The answer is definitely not 5.", false},
		{"5", "The answer is never 5.", false},
		{"5", "The answer cannot be 5.", false},
		{"5", "It can't be 5", false},
		{"5", "The answer is not equal to 5.", false},
		{"5", "The answer is not $5$.", false},
		{"5", `The answer is not \boxed{5}.`, false},
		{"7", `It is not \boxed{5} but \boxed{7}.`, true},
		{"5", `\boxed{5} or \boxed{7}`, false},
		{"5", `\boxed{5 \text{ or } 7}`, false},
		{"5", `\boxed{5, 7}`, false},
		{"5", "The answer is 5, or possibly 7.", false},
		{"5", "The answer is 5 (or 7).", false},
		{"5", "The answer is $x = 5$ or $x = 7$.", false},
		{"5", "Answer: 5/7", false},
		{"1/2", "The answer is 1/2 or 0.5.", true},
		{"1/2", "The answer is $\\frac12$, or 50%.", true},
		{"5", "The answer is 5, and 7 is a distractor.", true},
		{"5", "The answer is 5. There were 7 or 8 others.", true},
		{"5", "We had 7 or 8 guesses. The answer is 5.", true},
		{"5", "<answer>5</answer> <answer>7</answer>", false},
		{"5", "<answer>5 or 7</answer>", false},
		{"5", "答案不是5", false},
		{"5", "答案是5或7", false},
		{"5", "The answer is neither 5 nor 7.", false},
		{"7", "The answer is 7 instead of 5.", true},
		{"7", "The answer is 7 rather than 5.", true},
		{"5", "The answer is 7 rather than 5.", false},
		{"3,4", "The answers are 3 and 4.", true},
		{"3,4", "The answer is 3 or 4.", true},
		{"3", "The answers are 3 and 4.", false},
	})
}

// Answers in the wrappers that training formats, Markdown, JSON and other languages bring.
func TestAnswerWrappers(t *testing.T) {
	judge(t, []form{
		{"6", "<answer>6</answer>", true},
		{"6", "<think>a 3</think>\n<answer>\n6\n</answer>", true},
		{"x+1", "<answer>x+1</answer>", true},
		{"6", "<answer>7</answer>", false},
		{"6", "<think>6</think>\n<answer>7</answer>", false},
		{"6", "<answer>The answer is 6.</answer>", true},
		{"6", "<ANSWER>$6$</ANSWER>", true},
		{"6", `<answer>\boxed{6}</answer>`, true},
		{"6", "<answer>6", true},
		{"6", "<final_answer>6</final_answer>", true},
		{"6", `{"answer": "6"}`, true},
		{"6", `{"answer": 6}`, true},
		{"6", `{"reasoning": "3 + 3", "answer": 7}`, false},
		{"6", "```json\n{\"answer\": 6}\n```", true},
		{"6", "`6`", true},
		{"6", "\"6\"", true},
		{"6", "“6”", true},
		{"6", "**6**", true},
		{"6", "**Answer:** 6", true},
		{"6", "**Answer**: 6", true},
		{"6", "**Answer: 6**", true},
		{"6", "The answer is **6**.", true},
		{"6", "The answer is `6`.", true},
		{"x+1", "The answer is `x+1`.", true},
		{"6", "The answer is __6__", true},
		{"6", "<b>6</b>", true},
		{"6", "答案：6", true},
		{"6", "答案是6。", true},
		{"6", "最终答案是：**6**", true},
		{"6", "Answer = 6", true},
		{"6", "６", true},
		{"3.5", "３．５", true},
		{"x+1", "ｘ＋１", true},
		{"6", "Answer: 6\u200b", true},
		{"6", "\ufeff6", true},
		{"5x+3", "The answer is 5x + 3.", true},
		{"5", "The answer is 5x + 3.", false},
		{"5", "The answer is 5!", true},
	})
}

// Signs, exponents and other notation.
func TestNotation(t *testing.T) {
	judge(t, []form{
		{"3", "The answer is –3.", false},
		{"-3", "The answer is –3.", true},
		{"-3", "The answer is −3.", true},
		{"-3", "The answer is —3.", true},
		{"3", "The answer is —3.", false},
		{"-3", "The answer is －3.", true},
		{"-3", "The answer is ﹣3.", true},
		{"-3", `\boxed{–3}`, true},
		{"5", "The answer — 5", true},
		{"1000000", `\boxed{1e6}`, true},
		{"1e6", `\boxed{1000000}`, true},
		{"1e6", `\boxed{1e5}`, false},
		{"0.0012", "1.2E-3", true},
		{"6.02e23", `\boxed{6.02 \times 10^{23}}`, true},
		{"6.02e23", "The answer is 6.02 × 10²³.", true},
		{"6.02e23", "The answer is 6.02 × 10²².", false},
		{"4.5e-7", "The answer is 4.5 × 10⁻⁷", true},
		{"4.5e-7", `$4.5 \cdot 10^{-7}$`, true},
		{"10", "The answer is 4.5 × 10⁻⁷", false},
		{"9", "3²", true},
		{"3", "The answer is 3².", false},
		{"1024", "The answer is 2^10.", true},
		{"2", "The answer is 2^10.", false},
		{`\frac{1}{3}`, `\boxed{0.\overline{3}}`, true},
		{`0.1\overline{6}`, `\boxed{\frac16}`, true},
		{`\frac{1}{7}`, `\boxed{0.\overline{142857}}`, true},
		{`\frac{1}{7}`, `\boxed{0.\overline{142856}}`, false},
		{`\frac{1}{3}`, `$0.\bar{3}$`, true},
		{`\frac{1}{3}`, `$0.333\ldots$`, true},
		{`2\frac{1}{3}`, `$2.\overline{3}$`, true},
		{"6", `x \approx 6`, true},
		{"6", `$x \approx 7$`, false},
		{"6.28", `\boxed{2\pi \approx 6.28}`, true},
		{`2\pi`, `\boxed{2\pi \approx 6.28}`, true},
		{"7.28", `\boxed{2\pi \approx 7.28}`, false},
		{"7", `\boxed{5 \approx 7}`, false},
		{`\text{(A)}`, `\boxed{A}`, true},
		{"B", `\boxed{\textbf{(B)}}`, true},
		{"B", `\boxed{\text{B}}`, true},
		{"B", `\boxed{\mathrm{(B)}}`, true},
		{"B", `\boxed{(B)}`, true},
		{"A", `\boxed{\textbf{(B)}}`, false},
		{`\textbf{(A) }12`, `\boxed{12}`, true},
		{`\textbf{(A) }12`, `\boxed{A}`, true},
		{`\textbf{(A) }12`, `\boxed{13}`, false},
		{`\textbf{(A)}\ 12`, `\boxed{12}`, true},
		{`12`, `\boxed{\textbf{(A) }12}`, true},
		{"1,2", "The solutions are $x = 1$ and $x = 2$.", true},
		{"1,2", "The solutions are $x = 1$ and $x = 3$.", false},
		{"1,2", "The solutions are $x = 1$, $x = 2$.", true},
		{"1", "The solutions are $x = 1$ and $x = 2$.", false},
		{"1,2", "so $x=1$ or $x=2$", true},
		{"2", "so $x=1$ or $x=2$", false},
		{`\emptyset`, `\boxed{\{\}}`, true},
		{`\{\}`, `\boxed{\varnothing}`, true},
		{`\emptyset`, `\boxed{∅}`, true},
		{`\emptyset`, `\boxed{\{0\}}`, false},
		{"7", `\boxed{\color{red}{7}}`, true},
		{"7", `\boxed{\textcolor{blue}{7}}`, true},
		{"7", `\boxed{{\color{red} 7}}`, true},
		{"8", `\boxed{\color{red}{7}}`, false},
		{"½", "0.5", true},
		{"3½", "7/2", true},
		{`\frac{1}{2}`, `\boxed{½}`, true},
		{"x_1", "x₁", true},
		{`x^2`, "x²", true},
		{`\sqrt{2}`, "√2", true},
	})
}

// Units that differ make answers differ; those that measure the same are converted; a
// unit on one side alone is left out.
func TestUnits(t *testing.T) {
	judge(t, []form{
		{"5 cm", "5 m", false},
		{"5 cm", "5 cm", true},
		{"5 cm", "0.05 m", true},
		{"5 cm", "The answer is 5 m.", false},
		{"5 cm", "The answer is 5 cm.", true},
		{"5 cm", `\boxed{5\text{ cm}}`, true},
		{"5 cm", `\boxed{5\text{ m}}`, false},
		{"5 cm", `\boxed{5\,\mathrm{m}}`, false},
		{"5 cm", `\boxed{5}`, true},
		{"5", "5 m", true},
		{"2 hours", "120 minutes", true},
		{"2 hours", "2 minutes", false},
		{"3 kg", "3 g", false},
		{"3 kg", "3000 grams", true},
		{"3 kg", "3 meters", false},
		{"5 dollars", "5 cents", false},
		{`5\text{ dollars}`, "500 cents", true},
		{"1 year", "12 months", true},
		{"5 inches", "5 feet", false},
		{"4 cm^2", "4 m^2", false},
		{"4 cm^2", "4 cm^2", true},
	})
}

// Only values count where both sides can be read: digits in the same order are nothing.
func TestBraces(t *testing.T) {
	judge(t, []form{
		{`\frac{11}{2}`, `\boxed{\frac{1}{12}}`, false},
		{`\sqrt{x+1}`, `\boxed{\sqrt{x}+1}`, false},
		{`2^{n+1}`, `\boxed{2^{n}+1}`, false},
		{`e^{2x}`, `\boxed{e^{2}x}`, false},
		{`\frac{915}{3}`, `\boxed{\frac{91}{53}}`, false},
		{`\frac{11}{2}`, `\boxed{\frac{11}{2}}`, true},
		{`x_{12}`, `\boxed{x_{1}2}`, false},
		{`\sqrt{2}3`, `\boxed{\sqrt{23}}`, false},
		{`\binom{10}{2}`, `\boxed{\binom{1}{02}}`, false},
		{`a^{bc}`, `\boxed{a^{b}c}`, false},
		{`below`, `\boxed{elbow}`, false},
		{`below`, `\boxed{below}`, true},
		{`\text{below}`, `Below`, true},
		{`xyz`, `$zyx$`, true},
		{`\{1,2\}`, `$1,2$`, true},
		{`{1}2`, `$1{2}$`, true},
	})
}

package grade_test

import (
	"fmt"
	"testing"
)

// One letter in any dress is that letter; several, or a denied one, are none.
func TestChoiceForms(t *testing.T) {
	const four = `{"answer":"B","choices":["red","blue","green","grey"]}`
	right := []string{"The answer is `B`.", `ANSWER: "B"`, `"B"`, "`B`", "ANSWER: {B}", `ANSWER: \(B\)`, "Answer: <B>", "答案：B", "ANSWER: Ｂ", "ANSWER: B\u200b",
		"<answer>B</answer>", "<think>x</think>\n<answer>B</answer>", "<answer> (B) </answer>", "<answer>The answer is B</answer>", "<answer>\nB. blue\n</answer>",
		"Answer: **B**", "**Answer:** B", "**Answer**: B", "**Answer: B**", "***B***", "__B__", "*B*", "<b>B</b>", "Answer: __B__", "Answer - B", "Answer: [B]", "Answer: 'B'", "Answer: “B”",
		`{"answer": "B"}`, "```json\n{\"answer\": \"B\"}\n```", `{"reason": "A is wrong", "choice": "B"}`, `{"reasoning":"x","answer":"(B)"}`,
		"答案是B", "答案为 B。", "正确答案是（B）", "故选B", "故选：B。", "应选 B", "选B", "选择B", "所以答案是：**B**", "因此，正确选项是B。", "答え：B", "정답: B", "Ответ: B", "Respuesta: B", "Antwort: B", "La réponse est B",
		`$\text{(B)}$`, `\boxed{\textbf{(B)}}`, `\boxed{\text{(B) blue}}`, `\boxed{\mathrm{B}}`, `\boxed{(B)}`, `\boxed{\text{Option B}}`, `The answer is $\boxed{B}$.`, `\[\boxed{B}\]`, `\fbox{B}`,
		"The correct answer is option B.", "The correct option is B", "I choose option (B)", "B) blue", "B: blue", "B - blue", "B.", "(b)", "b", "The answer is b.", "Option B", "The best choice is B, blue.",
		"The answer is not A but B.", "The answer is not A, but B", "The answer isn't A, it's B.", "The answer is B, not A.", "The answer is B, not A or C.", "A is wrong. C is incorrect. B", "The answer is not A. It is B.",
		"B is right, A is wrong.", "The answer is B because A is wrong and C is too.", "The answer is B. A and C are wrong.", "The answer is B and A is wrong.", "𝐁", "Ⓑ", "Answer: 𝐁", "ANSWER:B", "answer=B", "Final Answer: B", "FINAL ANSWER: (B)",
		"Between A and C? No: B", "A is tempting, but B", "A is not it, B is.", "I think a bird told me: B", "The answer is **B**: blue", "**B. blue**", "**(B)**"}
	wrong := []string{
		"The answer is A.", "<answer>A</answer>", "答案：A", "Answer: `C`", "The answer is not B.", "Answer: not B",
		"The answer isn't B.", "It is not B", "B is wrong.", "答案不是B", "The answer is not B but C.",
		"The answer is A or B.", "The answer is B or C.", "The answer is either A or B", "The answer is A and B.", "The answer is B and C.", "The answer is A, B", "The answer is A, B, or C.", "The answer is B/C", "The answer is A/B",
		"A or B", "B or C", "A, B", "A/B", "A and B", "(A) or (B)", "`A` or `B`", "**A** or **B**", `\boxed{A} or \boxed{B}`, `\boxed{A, B}`, `\boxed{A \text{ or } B}`, `\boxed{\text{A or B}}`, `\boxed{B} and \boxed{C}`,
		"<answer>A or B</answer>", "<answer>A</answer><answer>B</answer>", "答案是A或B", "答案是A和B", "<answer>A, B</answer>", `{"answer": "A or B"}`, `{"answer": ["A", "B"]}`, "Answer: A B C D", "A B C D", "It could be A or maybe B", "A is right.", "A is correct, B is wrong.", "I would say A", "The answer is B, C or D.",
	}
	var list []graded
	for _, a := range right {
		list = append(list, graded{`choice`, four, a, 1})
	}
	for _, a := range wrong {
		list = append(list, graded{`choice`, four, a, 0})
	}
	table(t, list)
}

// Every letter in every dress, against every letter.
func TestChoiceLetters(t *testing.T) {
	var list []graded
	for _, dress := range []string{
		"%s", "(%s)", "The answer is %s.", "Answer: **%s**", "`%s`", "<answer>%s</answer>", `\boxed{%s}`, `\boxed{\text{(%s)}}`,
		"答案：%s", `{"answer":"%s"}`, "故选%s。", "The answer is not %s", "<answer>not %[1]s</answer>",
	} {
		for gold := 'A'; gold <= 'J'; gold++ {
			for got := 'A'; got <= 'J'; got++ {
				want := 0.0
				if gold == got && dress != "The answer is not %s" && dress != "<answer>not %[1]s</answer>" {
					want = 1
				}
				list = append(list, graded{
					`choice`,
					fmt.Sprintf(`{"answer":"%c","choices":["a","b","c","d","e","f","g","h","i","j"]}`, gold),
					fmt.Sprintf(dress, string(got)),
					want,
				})
			}
		}
	}
	table(t, list)
}

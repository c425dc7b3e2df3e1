package grade_test

import "testing"

// Neighbours of the forms above.
func TestChoiceNeighbours(t *testing.T) {
	const four = `{"answer":"B","choices":["red","blue","green","grey"]}`
	for _, a := range []string{"**Answer**\nB", "Answer is: B", "My answer: B", "The answer: B", "Correct Answer: B", "### Answer\nB",
		"### Answer:\n\n**B**", "Answer: B – blue", "Answer: B, because A is wrong", "[[B]]", "<<B>>", "«B»", "<choice>B</choice>",
		"<option>B</option>", `\answer{B}`, `\(\boxed{B}\)`, "$$B$$", "Answer: ‘B’", "~~A~~ B", "ANSWER: Ⓑ", "B）", "（B）", "答案:B", "【答案】B", "【B】",
		"答案選B", "正確答案：B", "答案：（Ｂ）", "答案：\"B\"", "答案：**B**", "答案为**B**", "本题选B。", "我认为答案是B", "选项B", "选项B是正确的",
		"Answer: \"B\"", "Answer: 'B'.", "answer: `b`", "The answer is \"B\".", "The answer is (`B`).", "The answer is <b>B</b>.",
		"Answer: <strong>B</strong>", "Answer: $\\mathbf{B}$", `Answer: \text{B}`, `Answer: $\text{B}$`, `$\boxed{\text{B}}$`,
		`{"answer":"B","explanation":"not A or C"}`, "```\nB\n```", "```json\n{\n  \"answer\": \"B\"\n}\n```", `The result is {"answer": "B"}`,
		"Here is it:\n```json\n{\"answer\": \"B\"}\n```", "ANSWER: B\n\nA is wrong since x. C too.", "A: no. B: yes. C: no.\nAnswer: B",
		"Answer: B.\nOptions A and C are wrong.", "The answer is option `B`", "The answer is: **(B) blue**", "B\u200b", "\u200bB",
		"ANSWER:\u00a0B", "The answer is\nB", "The answer is B (blue)", "The answer is B/blue", "Answer: B = blue", "_B_", "Answer: _B_", "=> B",
		"→ B", "Therefore, B", "So the answer is B, i.e. blue, not A.", "Let me think: A or C? The answer is B.", "I'd go with B",
		"I'm confident it's B.", "The answer should be B", "The answer must be B!", "B!", "Answer: B?", "Antwort: B", "Answer – B", "Answer — B",
		"the answer is choice B", "Answer: option (B)", "Answer： B", "Answer:B)", "(B", "B)"} {
		if s := score(t, "choice", four, a); s.Reward != 1 {
			t.Errorf("%q is %g: %s", a, s.Reward, s.Detail)
		}
	}
	for _, a := range []string{"Answer: A or B?", "Answer: [A, B]", "Answer: A | B", "Answer: A & B", "Answer: both A and B", "Both A and B",
		"Answer: A\nAnswer: C", "All of A, B, C", "Answer: neither A nor B", "I would not pick B", "It is anything but B", "Answer: A and/or B",
		"Answer: (A)(B)", "Answer: AB", "Answer: A; B", "A. B. C. D.", "答案：A、B", "答案：AB", "答案是A或者B", "选A和B", "不选B", "答案不是B而是C",
		"Answer: `A` `B`", "The answer is A. Or B.", "Answer: A (or B)", "Answer: A, maybe B", "<answer>A</answer> or <answer>B</answer>"} {
		if s := score(t, "choice", four, a); s.Reward != 0 {
			t.Errorf("wrong %q is %g: %s", a, s.Reward, s.Detail)
		}
	}
}

// Lists in other words and marks, doubts and second thoughts.
func TestChoiceSecondThoughts(t *testing.T) {
	const four = `{"answer":"B","choices":["red","blue","green","grey"]}`
	for _, a := range []string{
		"Answer: B C", "Answer: (B)(C)", "Answer: **B** **C**", "Answer: B (or C)", "Answer: B (C is also possible)", "B plus C",
		"B oder C", "B ou C", "B, alternatively C", "答案是B还是C", "The answer is B? No, C.", "The answer is B. No wait, C.",
		"I doubt the answer is B",
		"Answer: B (maybe C)", "Answer: B, or else C", "Answer: B; C", "Answer: B\nC", "Answer: `B` `C`", "B vs C", "B vs. C", "B otherwise C", "B unless C", "B y C", "B und C", "B et C", "B e C", "B o C", "The answer is B plus C.", "The answer is B, alternatively C.", "Answer: B. Wait, actually C.",
		"I don't think the answer is B.", "It's false that the answer is B.", "It is not true that the answer is B", "The answer is no longer B.", "The answer is hardly B", "I doubt that it is B", "B through D", "B to D", "B bzw. C", "B but maybe C", "(B) (C)", `\boxed{B \text{ or } C}`, "B as well as C", "The answer is B. Actually, it's C.", "The answer is B, no, C.", "The answer is B - no, C.",
	} {
		if s := score(t, "choice", four, a); s.Reward != 0 {
			t.Errorf("wrong %q is %g: %s", a, s.Reward, s.Detail)
		}
	}
	for _, a := range []string{
		"{'answer': 'B'}", "Answer: A? No, B.", "The answer is A. No wait, B.", "The answer is A. Actually, it's B.",
		"The answer is B. No, A is not right.", "The answer is B. C is tempting.", "Answer: B (C is wrong)", "Answer: B (not C)",
		"The answer is B. Wait, let me check: yes, B.",
		"I don't doubt it: the answer is B.", "There is no doubt that the answer is B.", "I have no doubt the answer is B", "I don't know about C, but the answer is B.", "Answer: B (blue)", "Answer: B\nC is red.", "Answer: B\n\nA: red\nC: green", "The answer is B. No other option fits.", "Answer: A or B? B.", "I don't think it's A. The answer is B.", "Answer: B\n- A: no\n- C: no", "Answer: B: blue. C: green", "The answer is B. Actually, A is close.", "Answer: B (see C)", "B, since C is false", "It's wrong to say that it's A. B.", "The answer is B, as opposed to C.", "[ANSWER]B[/ANSWER]",
	} {
		if s := score(t, "choice", four, a); s.Reward != 1 {
			t.Errorf("%q is %g: %s", a, s.Reward, s.Detail)
		}
	}
	for _, a := range []string{"B plus C", "B oder C", "B vs. C", "B bzw. C", "B but maybe C", "(B) (C)", "B, alternatively C", `\boxed{B \text{ or } C}`} {
		if s := score(t, "choice", `{"answer":"C","choices":["red","blue","green","grey"]}`, a); s.Reward != 0 {
			t.Errorf("wrong %q for C is %g: %s", a, s.Reward, s.Detail)
		}
	}
	for _, a := range []string{"The answer is B? No, C.", "The answer is B. No wait, C.", "I doubt the answer is B. It is C.", "Answer: B or C? C."} {
		if s := score(t, "choice", `{"answer":"C","choices":["red","blue","green","grey"]}`, a); s.Reward != 1 {
			t.Errorf("%q for C is %g: %s", a, s.Reward, s.Detail)
		}
	}
}

package grade_test

import (
	"context"
	"testing"

	"hermes/backends"
	"hermes/envs"
	"hermes/envs/grade"
)

// TestNumbersAsWritten are numbers in the forms that models write, and lists, exponents and
// remarks that are none.
func TestNumbersAsWritten(t *testing.T) {
	for _, tt := range []struct {
		gold, answer string
		right        bool
	}{
		{"12", "The answer is 1,2", false},
		{"3", "1, 2, 3", false},
		{"3.5", "3,5", true},
		{"1234567", "It is 1,234,567.", true},
		{"100000", "1,00,000 rupees", true},
		{"1000", "1\u202f000 m", true},
		{"3.5", "3 1/2", true},
		{"-3.5", `-3\frac{1}{2}`, true},
		{"3.5", `$3\frac12$ cups`, true},
		{"15.5", `3\frac{1}{2}`, false},
		{"-0.5", `\boxed{\frac{-1}{2}}`, true},
		{"0.75", "3 / 4", true},
		{"42", `\boxed{42 \text{ cm}^2}`, true},
		{"42", "The area is 42 cm^2.", true},
		{"42", "The area is 42 m2", true},
		{"2", "The area is 42 cm^2.", false},
		{"3000000", `3 \times 10^6`, true},
		{"0.003", `3 \cdot 10^{-3}`, true},
		{"1000000", "10^6", true},
		{"0.2", "20 percent", true},
		{"42", "€42", true},
		{"42", "#### 42\n\nThat is 6 boxes of 7.", true},
		{"7", "#### 42\n\nThat is 6 boxes of 7.", false},
		{"42", "#### 42 apples (6 boxes of 7)", true},
		{"42", "#### **42**", true},
		{"42", "#### $42", true},
		{"42", "#### 6 × 7 = 42", true},
		{"42", "#### Step 3\nSo it is 42.", true},
		{"42", "#### 3. The end\nSo it is 42.", true},
		{"42", "#### Final Answer\n\\boxed{42} of 50", true},
		{"42", "#### Answer: 42 (of 50)", true},
	} {
		g, err := grade.Number(tt.gold)
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Grade(t.Context(), envs.World{}, episode(t, "", tt.answer))
		if err != nil || (s.Reward == 1) != tt.right {
			t.Errorf("%q for %s: %g (%s), %v, want right: %v", tt.answer, tt.gold, s.Reward, s.Detail, err, tt.right)
		}
	}
}

// TestWholeWords: a gold answer of the row is not part of another word, and hedges are no
// choice.
func TestWholeWords(t *testing.T) {
	table(t, []graded{
		{`row`, `{"answer":"no"}`, "I do not know.", 0},
		{`row`, `{"answer":"no"}`, "No, it is not.", 1},
		{`row`, `{"answer":"B"}`, "a bird", 0},
		{`row`, `{"answer":"Paris"}`, "It's Paris's heart, **Paris**.", 1},
		{`row`, `{"answer":"東京"}`, "答えは東京です", 1},
		{`row`, `{"answer":"C++"}`, "It was written in C++.", 1},
		{`row`, `{"answer":"1, 2"}`, "12", 0},
		{`row`, `{"answer":"Paris"}`, "It is not Paris.", 0},
		{`row`, `{"answer":"Paris"}`, "It isn't Paris, it's London", 0},
		{`row`, `{"answer":"Paris"}`, "It is not London but Paris.", 1},
		{`row`, `{"answer":"Paris"}`, "Not Paris, Texas; it is Paris.", 1},
		{`row`, `{"answer":"not valid"}`, "It is not valid.", 1},
		{`row`, `{"answer":"1,200"}`, "1200", 1},
		{`row`, `{"expected":"cat"}`, "concatenated", 1}, // text that is anywhere
		{`choice`, `{"answer":"A"}`, "The answer is A or B.", 0},
		{`choice`, `{"answer":"B"}`, "The answer is A or B.", 0},
		{`json`, `{"answer":{"a":1}}`, "{\"a\": 1}\n\nSee [1].", 1},
		{`json`, `{"answer":[1]}`, `{"a": 1} and [1]`, 1},
		{`json`, `{"answer":{"a":1}}`, `{"a": 1}, no: {"a": 2} [1]`, 0},
	})
	s, err := grade.Parse("row")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Bind(row(t, `{"expected":""}`)); err == nil {
		t.Error("an empty text is expected: every answer is right")
	}
}

// hung is a box in which no command ends.
type hung struct{ backends.Sandbox }

func (hung) Exec(context.Context, backends.Cmd) (backends.Result, error) {
	return backends.Result{TimedOut: true, Code: 124}, nil
}

// TestCheckThatHangs: a check does not hold when its command, which the model made, never ends.
// The sample is void when the check is of something forbidden, or its command is our own.
func TestCheckThatHangs(t *testing.T) {
	for spec, void := range map[string]bool{
		`{kind: state, checks: [{kind: command, command: sh loop.sh}]}`:                                             false,
		`{kind: state, checks: [{kind: output, command: sh loop.sh, text: x}]}`:                                     false,
		`{kind: state, checks: [{kind: mode, path: a, text: "644"}]}`:                                               true,
		`{kind: state, checks: [{kind: command, command: "true"}], forbid: [{kind: command, command: sh loop.sh}]}`: true,
	} {
		s, err := grade.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"answer":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Grade(t.Context(), envs.World{Box: hung{}}, episode(t, "", "x"))
		if (err != nil) != void || got.Reward != 0 {
			t.Errorf("%s: %+v, %v, want an error: %v", spec, got, err, void)
		}
	}
}

// TestTestsInTheWay: what a model leaves where tests are put neither stops them nor sends
// them elsewhere.
func TestTestsInTheWay(t *testing.T) {
	for _, left := range []string{"mkdir -p t/run.sh/x", "echo x >t", "ln -s nowhere t", "mkdir t && ln -s ../out.txt t/run.sh"} {
		x := box(t)
		if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo four >out.txt; " + left}); err != nil {
			t.Fatal(err)
		}
		s, err := grade.Parse(`{kind: tests, command: sh t/run.sh}`)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"tests":{"t/run.sh":"grep -q four out.txt"}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Grade(t.Context(), envs.World{Box: x}, episode(t, "", "x"))
		if err != nil || got.Reward != 1 {
			t.Errorf("%s: %+v, %v", left, got, err)
		}
	}
}

package maths_test

import (
	"strings"
	"testing"

	"hermes/envs/grade/maths"
)

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		gold, answer string
		want         bool
	}{
		{`\frac{3}{4}`, `The answer is $0.75$.`, true},
		{`\frac{3}{4}`, `so we get \boxed{\dfrac{6}{8}}`, true},
		{`1\frac{1}{2}`, `$\frac32$`, true},
		{`12`, `Half of 24 is 12.`, true},
		{`12`, `12 plus 1 is 13.`, false},
		{`1,234`, `\boxed{1234}`, true},
		{`\sqrt{12}`, `$2\sqrt{3}$`, true},
		{`\sqrt{12}`, `$3.464102$`, true},
		{`\sqrt{12}`, `$3.46$`, false},
		{`\sqrt[3]{27}`, `3`, true},
		{`\frac{1}{1+\sqrt2}`, `$\sqrt{2}-1$`, true},
		{`x^2-1`, `$(x-1)(x+1)$`, true},
		{`x^2-1`, `$(x-1)^2$`, false},
		{`(x+y)^{40}`, `$(y+x)^{40}$`, true},
		{`\sin^2 x`, `$1-\cos^2 x$`, true},
		{`\ln 8`, `$3\ln 2$`, true},
		{`\log_2 8`, `3`, true},
		{`5!`, `120`, true},
		{`\binom{5}{2}`, `10`, true},
		{`|x-1|`, `$|1-x|$`, true},
		{`\{1,2,3\}`, `$\{3,2,1\}$`, true},
		{`\{1,2,3\}`, `$\{3,2\}$`, false},
		{`(1,2)`, `$(2,1)$`, false},
		{`(-\infty,2]\cup[3,\infty)`, `$[3,\infty)\cup(-\infty,2]$`, true},
		{`(-\infty,2]`, `$(-\infty,2)$`, false},
		{`x=2`, `\boxed{2}`, true},
		{`y = 2x+1`, `$2x - y + 1 = 0$`, true},
		{`y = 2x+1`, `$2x - y + 2 = 0$`, false},
		{`x > 3`, `$3 < x$`, true},
		{`x > 3`, `$x \ge 3$`, false},
		{`2:3`, `$4:6$`, true},
		{`10\%`, `10%`, true},
		{`10 \text{ cm}`, `$10$`, true},
		{`10 cm`, `\boxed{10}`, true},
		{`90^\circ`, `$90$`, true},
		{`2 \pm 3`, `$5, -1$`, true},
		{`\text{blue}`, `\boxed{\text{Blue}}`, true},
		{`\begin{pmatrix}1&2\\3&4\end{pmatrix}`, `$\begin{bmatrix}1&2\\3&5\end{bmatrix}$`, false},
		{`3i+1`, `$1+3i$`, true},
		{`i^2`, `-1`, true},
		{`2^{100}`, `1267650600228229401496703205376`, true},
		{`2^{100}`, `1267650600228229401496703205377`, false},
		{`0.000000001`, `0`, false},
		{`1/0`, `$\infty$`, false},
		{`5`, ``, false},
		{`5`, `I do not know.`, false},
		{`\text{odd}`, `The function is $\text{even}$`, false},
		{`6`, `<p>6</p> "; DROP TABLE`, true},
		{`100,200`, `$200, 100$`, true},
	} {
		if got := maths.Equal(tt.gold, tt.answer, maths.Options{}); got.Equal != tt.want {
			t.Errorf("%s and %s: %v, want %v; read as %q and %q", tt.gold, tt.answer, got.Equal, tt.want, got.Gold, got.Answer)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		gold, answer string
		o            maths.Options
	}{
		{`[-2,7]`, `$-2\le x\le 7$`, maths.Options{Relations: true}},
		{`(-\infty,3)`, `$x<3$`, maths.Options{Relations: true}},
		{`x\ge 3`, `$[3,\infty)$`, maths.Options{Relations: true}},
		{`f(x)`, `$g(y)$`, maths.Options{Loose: true}},
		{`1/3`, `0.33`, maths.Options{Places: 2}},
	} {
		if !maths.Equal(tt.gold, tt.answer, tt.o).Equal {
			t.Errorf("%s and %s are unequal with %+v", tt.gold, tt.answer, tt.o)
		}
		if maths.Equal(tt.gold, tt.answer, maths.Options{}).Equal {
			t.Errorf("%s and %s are equal without %+v", tt.gold, tt.answer, tt.o)
		}
	}
}

// Hostile text ends in a verdict, in bounded steps.
func TestHostile(t *testing.T) {
	for _, piece := range []string{
		"(", "\\frac{", "9", "x^", "9^", "!", "\\sqrt", "-", "{", "|", "\\{1,", "a,", "\\pm 1", "\\boxed{", "$", "1/", "x+",
		"9^{9^{", "\\begin{pmatrix}1&", "(x+1)^{99}*", "$$\\text{", "1,", "\\left(", "=x", "\\cup[1,2]", "\\frac12",
	} {
		sizes := []int{30, 1900}
		if piece == "(" || piece == "9" || piece == "$" {
			sizes = append(sizes, 70_000)
		}
		for _, n := range sizes {
			s := strings.Repeat(piece, n)
			maths.Equal(s, "$"+s+"1$", maths.Options{Relations: true, Loose: true})
			maths.Equal("1", s+strings.Repeat(")}", n%1000), maths.Options{})
			maths.Read(s, maths.Options{})
		}
	}
	if maths.Equal("9^{9^{9^{9}}}", "$9^{9^{9^{9}}}+1$", maths.Options{}).Equal {
		t.Error("numbers too large to know are called equal")
	}
}

func TestRead(t *testing.T) {
	for _, pair := range [][2]string{{`\boxed{1/2}`, `the answer is $\frac{2}{4}$`}, {`$x=3$`, `3`}, {`$a+b$`, `\boxed{b+a}`}} {
		a, ok1 := maths.Read(pair[0], maths.Options{})
		b, ok2 := maths.Read(pair[1], maths.Options{})
		if !ok1 || !ok2 || a != b {
			t.Errorf("%s and %s are read as %s and %s", pair[0], pair[1], a, b)
		}
	}
	if got, ok := maths.Read("nothing at all here", maths.Options{}); ok {
		t.Errorf("prose is read as %q", got)
	}
}

// What is read is equal to itself, and equality does not depend on the side.
func FuzzEqual(f *testing.F) {
	for _, s := range []string{
		`\frac{1}{2}`, `x^2+1=0`, `[1,2)\cup\{3\}`, `-2\le x<7`, `1,234.5\%`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`,
		`\sum_{k=0}^n F_k`, `2\pm\sqrt{3}`, `|x!|`, `\text{no}`,
	} {
		f.Add(s, s)
		f.Add(s, `\boxed{`+s+`}`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		o := maths.Options{}
		if got := maths.Equal(a, a, o); got.Gold != "" && len(got.Gold) <= 4000 && !got.Equal {
			t.Errorf("%q is not itself: read as %q", a, got.Gold)
		}
		x, y := maths.Equal(a, b, o), maths.Equal(b, a, o)
		if x.Equal != y.Equal {
			t.Errorf("%q and %q: %v, the other way %v; read as %q and %q", a, b, x.Equal, y.Equal, x.Gold, x.Answer)
		}
	})
}

func BenchmarkEqual(b *testing.B) {
	for b.Loop() {
		maths.Equal(`\frac{3}{4}`, `We add them all. Therefore the answer is \boxed{\dfrac{6}{8}}.`, maths.Options{})
	}
}

// TestWrittenForms are answers in the forms that models write.
func TestWrittenForms(t *testing.T) {
	for _, c := range []struct {
		gold, answer string
		same         bool
	}{
		{"10 cm^2", "10", true},
		{"10 cm^2", "2", false},
		{"10", `\boxed{10\text{ cm}^2}`, true},
		{"10", `\boxed{10\,\mathrm{m}^{2}}`, true},
		{"42", "The area is 42 cm^2.", true},
		{"42", "The area is 42 m².", true},
		{"2", "The area is 42 m^2.", false},
		{"3m^2+2", "2+3m^2", true},
		{"3 m^2 + 2", "2+3m^2", true},
		{"1,2", "2,1", true},
		{"1,2", "1 and 2", true},
		{"1,2", "x=1 or x=2", true},
		{"1,2", "1,3", false},
		{"1.22", "1,22", true},
		{"1.22", "It is 1,22", true},
		{"3.5", "3 1/2", true},
		{"-3.5", "-3 1/2", true},
		{"3.5", "It takes 3 1/2 cups", true},
		{"0.5", "It takes 3 1/2 cups", false},
		{`\infty`, "infinity", true},
		{`(1,\infty)`, "(1, infinity)", true},
	} {
		if r := maths.Equal(c.gold, c.answer, maths.Options{Relations: true}); r.Equal != c.same {
			t.Errorf("%q for %q: %v (read %q and %q)", c.answer, c.gold, r.Equal, r.Gold, r.Answer)
		}
	}
}

package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"hermes/envs/grade/figures"
	"hermes/envs/grade/report"
	"hermes/trajectory/stats"
)

// cell is a run over n tasks of which those that pass says are right.
func cell(t *testing.T, run string, n int, pass func(i int) bool) (*report.Report, iter.Seq2[report.Sample, error]) {
	t.Helper()
	var list []report.Sample
	b := report.New(report.Head{Suite: "s", Model: "m-" + run, Run: run, Toolsets: "<terminal|file>"})
	for i := range n {
		reward := 0.0
		if pass(i) {
			reward = 1
		}
		s := report.Sample{Task: fmt.Sprint("task", i), Reward: &reward, Turns: 1}
		list = append(list, s)
		b.Add(s)
	}
	r, err := b.Report(report.Options{Planned: int64(n), Books: stats.New(nil).Statistics(int64(n))})
	if err != nil {
		t.Fatal(err)
	}
	return r, func(yield func(report.Sample, error) bool) {
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func TestMatrix(t *testing.T) {
	m := report.NewMatrix("s")
	add := func(run string, objection error, pass func(i int) bool) {
		t.Helper()
		r, samples := cell(t, run, 40, pass)
		if err := m.Add(r, samples, objection); err != nil {
			t.Fatal(err)
		}
	}
	add("base", nil, func(i int) bool { return i%2 == 0 })
	add("better", nil, func(i int) bool { return i%2 == 0 || i < 26 }) // 13 more, none lost
	add("same", nil, func(i int) bool { return i%2 == 0 })
	add("worse", nil, func(i int) bool { return i%2 == 0 && i >= 12 }) // 6 lost
	add("other", errors.New("their dataset differs"), func(int) bool { return true })
	m.Lack(report.Head{Suite: "s", Run: "never"}, "it was not begun")
	m.Finish()
	if len(m.Cells) != 6 || len(m.Comparison) != 4 {
		t.Fatalf("%d cells, %d comparisons", len(m.Cells), len(m.Comparison))
	}
	ps := []float64{2 * math.Pow(2, -13), 1, 2 * math.Pow(2, -6)}
	holm := figures.Holm(ps)
	for i, want := range []float64{13.0 / 40, 0, -6.0 / 40} {
		x := m.Comparison[i]
		if math.Abs(x.Difference.Value-want) > 1e-12 || x.Pairs != 40 || x.Test != "mcnemar-exact" || math.Abs(x.P-ps[i]) > 1e-12 ||
			math.Abs(x.Holm-holm[i]) > 1e-12 {
			t.Errorf("%s: %+v, want %g, p %g, adjusted %g", x.Run, x, want, ps[i], holm[i])
		}
	}
	if holm[0] != 3*ps[0] || holm[2] != 2*ps[2] {
		t.Errorf("Holm: %v", holm)
	}
	if m.Comparison[3].Missing != "their dataset differs" || !strings.HasPrefix(m.Caveat, "3 comparisons: of so many, about one in 8 ") {
		t.Errorf("%+v, %q", m.Comparison[3], m.Caveat)
	}
	var md, page, text bytes.Buffer
	if err := errors.Join(m.Markdown(&md), m.HTML(&page), m.Text(&text)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| better | m-better, &lt;terminal\\|file> | 0.8250 (", "| +0.3250 |", "| -0.1500 |", "| never |",
		"no figure: it was not begun", "their dataset differs", "40 of 40",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("matrix.md lacks %q:\n%s", want, &md)
		}
	}
	for _, line := range strings.Split(md.String(), "\n") { // every row of a table has all its cells
		if n := strings.Count(strings.ReplaceAll(line, "\\|", ""), "|"); n > 0 && n != 11 && n != 9 {
			t.Errorf("%d bars in %q", n, line)
		}
	}
	for _, want := range []string{"&lt;terminal|file&gt;", "+0.3250", "<svg", "…"} {
		if want != "…" && !strings.Contains(page.String(), want) && !strings.Contains(page.String(), strings.ReplaceAll(want, "+", "&#43;")) {
			t.Errorf("matrix.html lacks %q", want)
		}
	}
	if !strings.Contains(text.String(), "worse - base: -0.1500 (95 % interval ") {
		t.Errorf("%s", &text)
	}
}

// Without a first run there is nothing to compare with, and nothing is made up.
func TestMatrixWithoutItsFirstRun(t *testing.T) {
	m := report.NewMatrix("s")
	m.Lack(report.Head{Run: "never"}, "it was not begun")
	r, samples := cell(t, "a", 3, func(int) bool { return true })
	if err := m.Add(r, samples, nil); err != nil {
		t.Fatal(err)
	}
	m.Finish()
	m.Suite = "s\x1b[2J\u202e"
	var page bytes.Buffer
	if err := m.HTML(&page); err != nil || strings.ContainsAny(page.String(), "\x1b\u202e") {
		t.Errorf("what steers a terminal is in the page: %v", err)
	}
	m.Suite = "s"
	var b bytes.Buffer
	if err := errors.Join(m.Markdown(&b), m.HTML(&b), m.Text(&b)); err != nil || len(m.Comparison) != 0 || strings.Contains(b.String(), "Against") {
		t.Errorf("%v\n%s", err, &b)
	}
}

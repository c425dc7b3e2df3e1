package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hermes/envs/grade/figures"
	"hermes/internal/late"
	"hermes/internal/printable"
)

// names lists the metrics in the order in which people read them: reward, accuracy, then
// each family by k.
func (r *Report) names() []string {
	rank := func(name string) int {
		i := slices.IndexFunc([]string{"reward", "accuracy", "pass@", "pass^", "maj@"}, func(p string) bool { return strings.HasPrefix(name, p) })
		k, _ := strconv.Atoi(digits.FindString(name))
		return i<<20 + k
	}
	return slices.SortedFunc(maps.Keys(r.Metrics), func(a, b string) int { return rank(a) - rank(b) })
}

var digits = late.Regexp(`\d+$`)

// Interval writes an estimate's interval for people.
func Interval(e figures.Estimate) string {
	if e.Low == nil {
		return "no interval"
	}
	return fmt.Sprintf("%.4f to %.4f", *e.Low, *e.High)
}

// Line is the report in one line: what was measured, of how many, how sure.
func (r *Report) Line() string {
	var b strings.Builder
	if e, ok := r.Metrics["reward"]; ok {
		fmt.Fprintf(&b, "reward %.4f (%.0f %% interval %s, %s, %d %s", e.Value, e.Level*100, Interval(e), e.Method, e.N, e.Denominator)
		fmt.Fprintf(&b, " of %d planned)", r.Samples.Planned)
		if e.Note != "" {
			b.WriteString("; " + e.Note)
		}
	} else {
		fmt.Fprintf(&b, "no figure: %s", cmp.Or(r.Refused, fmt.Sprintf("none of %d planned samples has a score", r.Samples.Planned)))
	}
	if r.Samples.missing() > 0 && r.Bounds.Zero != nil {
		fmt.Fprintf(&b, "; with the %d missing at 0 or 1: %.4f to %.4f", r.Samples.missing(), *r.Bounds.Zero, *r.Bounds.One)
	}
	return b.String()
}

// Markdown writes report.md.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n%s.\n\n", cell(cmp.Or(r.Suite, r.Run)), cell(cmp.Or(r.Model, "an unnamed model")), cell(r.Line()))
	if r.Grader != "" {
		fmt.Fprintf(&b, "Grader: %s.\n\n", cell(r.Grader))
	}
	if len(r.Metrics) > 0 {
		b.WriteString("| metric | value | 95 % interval | method | over |\n|---|---:|---|---|---|\n")
		for _, name := range r.names() {
			e := r.Metrics[name]
			over := fmt.Sprintf("%d %s", e.N, e.Denominator)
			if e.Tasks > 0 && e.Tasks != e.N {
				over += fmt.Sprintf(" in %d tasks", e.Tasks)
			}
			if e.Bootstrap != nil {
				over += fmt.Sprintf("; bootstrap: %.4f to %.4f", e.Bootstrap.Low, e.Bootstrap.High)
			}
			if e.Note != "" {
				over += "; " + e.Note
			}
			fmt.Fprintf(&b, "| %s | %.4f | %s | %s | %s |\n", cell(name), e.Value, Interval(e), e.Method, over)
		}
		b.WriteString("\n")
	}
	c := r.Samples
	b.WriteString("| samples | |\n|---|---:|\n")
	fmt.Fprintf(&b, "| planned | %d |\n| scored | %d |\n| without anything to be judged by | %d |\n", c.Planned, c.Scored, c.Unscored)
	for _, k := range slices.Sorted(maps.Keys(c.Failed)) {
		fmt.Fprintf(&b, "| failed: %s | %d |\n", cell(k), c.Failed[k])
	}
	fmt.Fprintf(&b, "| pending | %d |\n\n", c.Pending)
	if r.Bounds.Zero != nil {
		fmt.Fprintf(&b, "If every missing sample had earned 0: %.4f; 1: %.4f.", *r.Bounds.Zero, *r.Bounds.One)
	}
	if r.MDE > 0 {
		fmt.Fprintf(&b, " A comparison over these tasks finds differences of %.3f and more (80 %% power, results that correlate by 0.5).", r.MDE)
	}
	fmt.Fprintf(&b, "\n\nPer sample: %s. Tokens: %d prompt, %d completion. Cost: %s. %.1f s from first to last.\n", r.perSampleText(), r.Tokens.Prompt, r.Tokens.Completion, dollars(r.CostUSD), r.Seconds)
	if len(r.Tools) > 0 {
		b.WriteString("\n| tool | calls | failed |\n|---|---:|---:|\n")
		for _, k := range slices.Sorted(maps.Keys(r.Tools)) {
			fmt.Fprintf(&b, "| %s | %d | %d |\n", cell(k), r.Tools[k].Count, r.Tools[k].Failure)
		}
	}
	if len(r.Causes) > 0 {
		b.WriteString("\n| failed attempts by cause | |\n|---|---:|\n")
		for _, k := range slices.Sorted(maps.Keys(r.Causes)) {
			fmt.Fprintf(&b, "| %s | %d |\n", cell(k), r.Causes[k])
		}
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

func (r *Report) perSampleText() string {
	e := r.Each
	text := fmt.Sprintf("%.0f tokens, %.1f turns, %.1f s, %.1f tool calls", e.Tokens, e.Turns, e.Seconds, e.Calls)
	if e.Efficiency != nil {
		text += fmt.Sprintf(" (efficiency %.2f)", *e.Efficiency)
	}
	if e.CostUSD != nil {
		text += ", " + dollars(e.CostUSD)
	}
	return text
}

func dollars(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.4f", *v)
}

// cell makes text safe for a table of Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// Text writes a comparison for people.
func (c *Comparison) Text(w io.Writer) error {
	var b strings.Builder
	d := c.Difference
	fmt.Fprintf(&b, "A %s (%s): mean %.4f, %d tokens, cost %s\nB %s (%s): mean %.4f, %d tokens, cost %s\n",
		c.A.Run, c.A.Model, c.A.Mean, c.A.Tokens, dollars(c.A.CostUSD), c.B.Run, c.B.Model, c.B.Mean, c.B.Tokens, dollars(c.B.CostUSD))
	fmt.Fprintf(&b, "%d pairs in %d tasks; left out: %d of A, %d of B\n", c.Pairs, c.Tasks, c.A.Unpaired, c.B.Unpaired)
	fmt.Fprintf(&b, "A - B: %.4f (%.0f %% interval %s, %s)\n", d.Value, d.Level*100, Interval(d), d.Method)
	if d.Note != "" {
		fmt.Fprintf(&b, "note: %s\n", d.Note)
	}
	for _, t := range c.Tests {
		fmt.Fprintf(&b, "%s: p = %.4g", t.Name, t.P)
		if t.OnlyA != nil {
			fmt.Fprintf(&b, " (passed in A alone: %d, in B alone: %d)", *t.OnlyA, *t.OnlyB)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d tasks moved\n", len(c.Moves))
	for i, m := range c.Moves {
		if i == 20 {
			fmt.Fprintf(&b, "  … and %d more (--json lists all)\n", len(c.Moves)-i)
			break
		}
		fmt.Fprintf(&b, "  %s: %.4g in A, %.4g in B\n", m.Task, m.A, m.B)
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

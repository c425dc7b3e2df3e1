package report

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"strings"

	"hermes/envs/grade/figures"
	"hermes/internal/printable"
)

// Matrix is what several runs of one suite came to, side by side: matrix.json. Each cell
// is compared with the first one, sample by sample.
type Matrix struct {
	Suite      string    `json:"suite"`
	Cells      []Cell    `json:"cells"`
	Comparison []Against `json:"comparison"` // of each further cell with the first
	Caveat     string    `json:"caveat,omitempty"`

	first *baseline // samples of the first cell; nil: it has none
}

// Cell is one run of a matrix.
type Cell struct {
	Head
	Metrics map[string]figures.Estimate `json:"metrics"`
	Bounds  Bounds                      `json:"bounds"`
	Samples Counts                      `json:"samples"`
	Each    Each                        `json:"per_sample"`
	CostUSD *float64                    `json:"cost_usd"`
	Line    string                      `json:"line"`
	Missing string                      `json:"missing,omitempty"` // why there is nothing of it
	Href    string                      `json:"-"`                 // the report of this run
}

// Against is the difference of a cell to the first one: cell − first.
type Against struct {
	Run        string           `json:"run"`
	Pairs      int              `json:"pairs"`
	Tasks      int              `json:"tasks"`
	Difference figures.Estimate `json:"difference"`
	Test       string           `json:"test,omitempty"`
	P          float64          `json:"p"`
	Holm       float64          `json:"p_holm"` // adjusted for the number of comparisons
	Moved      int              `json:"moved"`  // tasks whose mean differs
	Missing    string           `json:"missing,omitempty"`
}

// baseline is a run that others are compared with.
type baseline struct {
	head    Head
	samples map[place]short
	seen    int
}

// NewMatrix begins the matrix of a suite.
func NewMatrix(suite string) *Matrix {
	return &Matrix{Suite: suite, Cells: []Cell{}, Comparison: []Against{}}
}

// Lack takes in a cell of which there is no report.
func (m *Matrix) Lack(h Head, why string) {
	m.Cells = append(m.Cells, Cell{Head: h, Missing: why, Metrics: map[string]figures.Estimate{}})
}

// Add takes in the report of the next cell and compares its samples with those of the
// first one. objection says why they cannot be compared; nil: they can.
func (m *Matrix) Add(r *Report, samples iter.Seq2[Sample, error], objection error) error {
	m.Cells = append(m.Cells, Cell{Head: r.Head, Metrics: r.Metrics, Bounds: r.Bounds, Samples: r.Samples, Each: r.Each, CostUSD: r.CostUSD, Line: r.Line()})
	if len(m.Cells) > 1 && m.first == nil {
		return nil // there is nothing to compare with
	}
	x := Against{Run: r.Run}
	if objection != nil {
		x.Missing = objection.Error()
		m.Comparison = append(m.Comparison, x)
		return nil
	}
	if r.Refused != "" && len(m.Cells) > 1 {
		x.Missing = r.Refused
		m.Comparison = append(m.Comparison, x)
		return nil
	}
	list, seen, err := read(samples)
	if err != nil {
		return err
	}
	b := &baseline{r.Head, list, seen}
	if len(m.Cells) == 1 {
		if r.Refused == "" {
			m.first = b
		}
		return nil
	}
	c, err := compare(b, m.first, 0)
	switch {
	case errors.Is(err, ErrNothingToCompare):
		x.Missing = err.Error()
	case err != nil:
		return err
	default:
		x.Pairs, x.Tasks, x.Difference, x.Moved = c.Pairs, c.Tasks, c.Difference, len(c.Moves)
		x.Test, x.P = c.test()
	}
	m.Comparison = append(m.Comparison, x)
	return nil
}

// test is the one of the tests that suits the samples: McNemar's takes pairs for
// independent, which several samples of a task are not.
func (c *Comparison) test() (name string, p float64) {
	t := c.Tests[len(c.Tests)-1]
	if c.Pairs == c.Tasks {
		t = c.Tests[0]
	}
	return t.Name, t.P
}

// Finish adjusts the p-values for how many there are.
func (m *Matrix) Finish() {
	var ps []float64
	for _, x := range m.Comparison {
		if x.Missing == "" {
			ps = append(ps, x.P)
		}
	}
	adjusted := figures.Holm(ps)
	for i, n := 0, 0; i < len(m.Comparison); i++ {
		if m.Comparison[i].Missing == "" {
			m.Comparison[i].Holm = adjusted[n]
			n++
		}
	}
	m.first = nil
	if len(ps) > 1 {
		m.Caveat = fmt.Sprintf("%d comparisons: of so many, about one in %.0f such pages would show a difference where there is none if each p was read by itself; "+
			"p (Holm) is adjusted for that. Each interval is a 95 %% interval by itself.", len(ps), math.Ceil(1/(1-math.Pow(0.95, float64(len(ps))))))
	}
}

// name is how people tell the cell from the others.
func (c *Cell) name() string {
	if c.Toolsets == "" {
		return c.Model
	}
	return c.Model + ", " + c.Toolsets
}

// metrics are the names that any cell has, in their order.
func (m *Matrix) metrics() []string {
	all := &Report{Metrics: map[string]figures.Estimate{}}
	for _, c := range m.Cells {
		maps.Copy(all.Metrics, c.Metrics)
	}
	return all.names()
}

// value is a figure with its interval, for people.
func (c *Cell) value(metric string) string {
	e, ok := c.Metrics[metric]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.4f (%s)", e.Value, Interval(e))
}

// of is how many samples the figures are of.
func (c *Cell) of() string { return fmt.Sprintf("%d of %d", c.Samples.Scored, c.Samples.Planned) }

// Markdown writes matrix.md.
func (m *Matrix) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %d runs\n\n| run | model, toolsets |", cell(m.Suite), len(m.Cells))
	names := m.metrics()
	for _, n := range names {
		fmt.Fprintf(&b, " %s |", cell(n))
	}
	b.WriteString(" missing at 0 or 1 | scored | tokens a sample | turns | cost |\n|---|---|" + strings.Repeat("---|", len(names)) + "---|---:|---:|---:|---:|\n")
	for i := range m.Cells {
		c := &m.Cells[i]
		fmt.Fprintf(&b, "| %s | %s |", cell(c.Run), cell(c.name()))
		if c.Missing != "" {
			fmt.Fprintf(&b, " no figure: %s |%s\n", cell(c.Missing), strings.Repeat(" |", len(names)+4))
			continue
		}
		for _, n := range names {
			fmt.Fprintf(&b, " %s |", c.value(n))
		}
		fmt.Fprintf(&b, " %s | %s | %.0f | %.1f | %s |\n", c.bounds(), c.of(), c.Each.Tokens, c.Each.Turns, dollars(c.CostUSD))
	}
	if len(m.Comparison) > 0 {
		fmt.Fprintf(&b, "\n## Against %s\n\n| run | difference | 95 %% interval | pairs | tasks moved | test | p | p (Holm) |\n|---|---:|---|---:|---:|---|---:|---:|\n", cell(m.Cells[0].Run))
		for _, x := range m.Comparison {
			if x.Missing != "" {
				fmt.Fprintf(&b, "| %s | none: %s | | | | | | |\n", cell(x.Run), cell(x.Missing))
				continue
			}
			fmt.Fprintf(&b, "| %s | %+.4f | %s | %d | %d | %s | %.4g | %.4g |\n", cell(x.Run), x.Difference.Value, Interval(x.Difference), x.Pairs, x.Moved, x.Test, x.P, x.Holm)
		}
	}
	if m.Caveat != "" {
		fmt.Fprintf(&b, "\n%s\n", m.Caveat)
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// Text writes the matrix for people who read it in a terminal.
func (m *Matrix) Text(w io.Writer) error {
	var b strings.Builder
	for _, c := range m.Cells {
		line := c.Line
		if c.Missing != "" {
			line = "no figure: " + c.Missing
		}
		fmt.Fprintf(&b, "%s: %s\n", c.Run, line)
	}
	for _, x := range m.Comparison {
		if x.Missing != "" {
			fmt.Fprintf(&b, "%s - %s: none: %s\n", x.Run, m.Cells[0].Run, x.Missing)
			continue
		}
		fmt.Fprintf(&b, "%s - %s: %+.4f (95 %% interval %s), %s p = %.4g, adjusted %.4g\n", x.Run, m.Cells[0].Run, x.Difference.Value, Interval(x.Difference), x.Test, x.P, x.Holm)
	}
	if m.Caveat != "" {
		b.WriteString(m.Caveat + "\n")
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

func (c *Cell) bounds() string {
	if c.Bounds.Zero == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f to %.4f", *c.Bounds.Zero, *c.Bounds.One)
}

// HTML writes matrix.html: one page that needs nothing else.
func (m *Matrix) HTML(w io.Writer) error {
	t, err := parse(matrixPage)
	if err != nil {
		return err
	}
	var figs, diffs []drawn
	for _, c := range m.Cells {
		if e, ok := c.Metrics["reward"]; ok {
			figs = append(figs, drawn{c.Run, e})
		}
	}
	for _, x := range m.Comparison {
		if x.Missing == "" {
			diffs = append(diffs, drawn{x.Run, x.Difference})
		}
	}
	type value struct {
		Metric string
		Reward bool
		E      *figures.Estimate // nil: the cell has none
	}
	type shown struct {
		Cell
		Name, Bounds, Of string
		Values           []value
	}
	var cells []shown
	for _, c := range m.Cells {
		x := shown{Cell: c, Name: c.name(), Bounds: c.bounds(), Of: c.of()}
		for _, n := range m.metrics() {
			v := value{Metric: n, Reward: n == "reward"}
			if e, ok := c.Metrics[n]; ok {
				v.E = &e
			}
			x.Values = append(x.Values, v)
		}
		cells = append(cells, x)
	}
	return execute(w, t, "page", map[string]any{"M": m, "Cells": cells, "Metrics": m.metrics(), "Rewards": forest("rewards with their intervals", figs, 0, 1), "Differences": forest("differences to the first run with their intervals", diffs, 0, 0)})
}

package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"hermes/envs/grade/report"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

func sample(task string, number int, reward float64) report.Sample {
	return report.Sample{Task: task, Number: number, Reward: &reward, Turns: 2, Tokens: 100}
}

// TestMissing: 30 % of the samples end in failures of ours, some have no grader, some are
// not done. Every figure says of how many it is, and nothing becomes a zero.
func TestMissing(t *testing.T) {
	b := report.New(report.Head{Suite: "s", Model: "m"})
	for i := range 60 { // 45 of 60 pass
		b.Add(sample(fmt.Sprint("t", i), 0, float64(min(1, i/15))))
	}
	for i := range 30 {
		b.Add(report.Sample{Task: fmt.Sprint("f", i), Failure: []trajectory.Outcome{trajectory.Provider, trajectory.Sandbox, trajectory.Environment}[i%3]})
	}
	for i := range 4 {
		b.Add(report.Sample{Task: fmt.Sprint("u", i)})
	}
	r, err := b.Report(report.Options{Planned: 100})
	if err != nil {
		t.Fatal(err)
	}
	want := report.Counts{Planned: 100, Scored: 60, Unscored: 4, Pending: 6, Failed: map[string]int64{"provider": 10, "sandbox": 10, "environment": 10}}
	if fmt.Sprint(r.Samples) != fmt.Sprint(want) {
		t.Errorf("counts %v, want %v", r.Samples, want)
	}
	e := r.Metrics["accuracy"]
	if e.Value != 0.75 || e.N != 60 || e.Denominator != "scored samples" || math.Abs(*e.Low-0.6276792992) > 1e-9 || math.Abs(*e.High-0.8422347747) > 1e-9 {
		t.Errorf("accuracy %+v, %v to %v", e, *e.Low, *e.High)
	}
	if *r.Bounds.Zero != 0.45 || *r.Bounds.One != 0.85 {
		t.Errorf("bounds %v to %v, want 0.45 to 0.85", *r.Bounds.Zero, *r.Bounds.One)
	}
	if line := r.Line(); !strings.Contains(line, "60 scored samples of 100 planned") ||
		!strings.Contains(line, "with the 40 missing at 0 or 1: 0.4500 to 0.8500") {
		t.Error(line)
	}
	r, err = b.Report(report.Options{Planned: 100, Strict: true})
	if err != nil || len(r.Metrics) != 0 || !strings.Contains(r.Refused, "40 of 100") {
		t.Errorf("strict: %v, %q, %v", r.Metrics, r.Refused, err)
	}
	if _, err := b.Report(report.Options{Planned: 90}); err == nil {
		t.Error("94 samples of 90 planned ones are accepted")
	}
}

// TestVotes: wrong answers that agree outvote right ones; the right ones count as one.
func TestVotes(t *testing.T) {
	b := report.New(report.Head{})
	for i, a := range []string{"7", "7", "9", "9", "9"} {
		reward := 0.0
		if a == "7" {
			reward = 1
		}
		s := sample("t", i, reward)
		s.Answer = a
		b.Add(s)
	}
	r, err := b.Report(report.Options{Planned: 5})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"pass@1": 0.4, "maj@5": 0, "pass@4": 1, "pass^2": 0.1, "maj@2": 0.4, "maj@4": 0.3} {
		if got := r.Metrics[name].Value; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	b = report.New(report.Head{})
	b.Add(sample("t", 0, 1))
	b.Add(sample("t", 1, 0))
	r, err = b.Report(report.Options{Planned: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Metrics["maj@2"]; ok {
		t.Error("a majority without answers to vote on")
	}
	b.Add(sample("t", 2, 0.5))
	r, err = b.Report(report.Options{Planned: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Metrics["accuracy"]; ok || len(r.Metrics) != 1 {
		t.Errorf("rewards between 0 and 1 have no accuracy: %v", r.Metrics)
	}
}

// TestClusters: tasks that belong together count as one for the interval.
func TestClusters(t *testing.T) {
	b := report.New(report.Head{})
	for i := range 40 {
		s := sample(fmt.Sprint("t", i), 0, float64(i/4%2))
		s.Cluster = fmt.Sprint(i / 4)
		b.Add(s)
	}
	r, err := b.Report(report.Options{Planned: 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"accuracy", "pass@1"} {
		if e := r.Metrics[name]; e.Method != "clustered-t" || e.Tasks != 10 || e.N != 40 || *e.High-*e.Low < 0.7 {
			t.Errorf("%s: %+v, %v to %v", name, e, *e.Low, *e.High)
		}
	}
}

// TestPages: JSON has the keys that programs read; text from outside is escaped.
func TestPages(t *testing.T) {
	const evil = "<script>alert(1)</script>|x\x1b[2J\u202e"
	b := report.New(report.Head{Suite: evil, Model: evil})
	for i := range 12 {
		s := sample(fmt.Sprint(evil, i/3), i%3, float64(i%2))
		cost := float64(i)
		s.Cost = &cost
		s.Wanted = 2
		s.Calls = i % 4
		b.Add(s)
	}
	r, err := b.Report(report.Options{
		Planned: 12,
		Books:   stats.Statistics{Causes: map[string]int64{evil: 3}, Tools: map[string]trajectory.ToolCount{evil: {Count: 4, Failure: 1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"suite", "model", "metrics", "bounds", "samples", "cost_usd", "tokens", "seconds"} {
		if keys[k] == nil {
			t.Errorf("report.json has no %s", k)
		}
	}
	if r.Tools[evil].ErrorRate != 0.25 || *r.Each.CostUSD != 5.5 || math.Abs(*r.Each.Efficiency-(0+1+1+2./3)/4) > 1e-12 {
		t.Errorf("%+v, %v", r.Tools, *r.Each.Efficiency)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"md":   func(b *bytes.Buffer) error { return r.Markdown(b) },
		"html": func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var page bytes.Buffer
		if err := write(&page); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), "<script") {
			t.Errorf("%s: text of the run is not escaped", name)
		}
		if name == "html" && strings.ContainsAny(page.String(), "\x1b\u202e") {
			t.Error("what steers a terminal is in the page")
		}
		if name == "html" && strings.Count(page.String(), "<svg") != 5 {
			t.Errorf("%d plots, want metrics, curve, cost, failures, turns", strings.Count(page.String(), "<svg"))
		}
	}
}

func each(list ...report.Sample) iter.Seq2[report.Sample, error] {
	return func(yield func(report.Sample, error) bool) {
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func TestCompare(t *testing.T) {
	failed := report.Sample{Task: "c", Failure: trajectory.Sandbox}
	c, err := report.Compare(report.Head{Run: "A"}, report.Head{Run: "B"},
		each(sample("a", 0, 1), sample("a", 1, 1), sample("b", 0, 1), sample("c", 0, 1), sample("d", 0, 0)),
		each(sample("a", 0, 0), sample("a", 1, 1), sample("b", 0, 0), failed, sample("d", 0, 0), sample("e", 0, 1)), 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Pairs != 4 || c.Tasks != 3 || c.Difference.Value != 0.5 || fmt.Sprint(c.Moved) != "[b a]" || c.A.Unpaired != 1 || c.B.Unpaired != 2 {
		t.Errorf("%+v", c)
	}
	if x := c.Tests[0]; x.Name != "mcnemar-exact" || x.P != 0.5 || *x.OnlyA != 2 || *x.OnlyB != 0 {
		t.Errorf("%+v", x)
	}
	if _, err := report.Compare(report.Head{}, report.Head{}, each(failed), each(failed), 1); err == nil {
		t.Error("nothing is compared")
	}
}

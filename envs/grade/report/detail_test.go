package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hermes/envs/grade/report"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// TestDetails: means by grader and by category, the samples that failed and those with the
// lowest rewards with their links, the tasks, the settings, and what the judge cost.
func TestDetails(t *testing.T) {
	b := report.New(report.Head{Suite: "s", Model: "m", Run: "r"})
	for i := range 40 {
		s := sample(fmt.Sprintf("t%02d", i), 0, float64(min(1, i%4)))
		s.Parts = map[string]float64{"number": *s.Reward, "format": 0.5}
		s.Labels = []report.Label{{Key: "category", Value: []string{"even", "odd"}[i%2]}, {Key: "same", Value: "x"}, {Key: "id", Value: fmt.Sprint(i * 1000)}}
		s.Why, s.Answer = "read 7", strings.Repeat("a long answer ", 100)
		b.Add(s)
	}
	b.Add(report.Sample{Task: "lost", Failure: trajectory.Sandbox, Why: "the box was lost"})
	r, err := b.Report(report.Options{
		Planned:  41,
		Books:    stats.Statistics{Judge: &stats.Judge{Model: "wise", Asked: 3, Tokens: stats.Tokens{Prompt: 1234, Completion: 56}}},
		Settings: []report.Setting{{Name: "temperature", Value: "0.7"}},
		Links:    []report.Link{{Name: "matrix", Href: "../s-matrix/matrix.html"}},
		Link: func(c report.Case) []report.Link {
			return []report.Link{{Name: "artifacts", Href: "artifacts/" + c.Task + "/0/"}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Graders["format"]; g.N != 40 || g.Mean != 0.5 || r.Graders["number"].Mean != 0.75 || r.Graders["number"].Low != 0 {
		t.Errorf("graders %+v", r.Graders)
	}
	if c := r.Categories["category"]; len(r.Categories) != 2 || c["even"].Reward.Value != 0.5 || c["odd"].Reward.Value != 1 || c["even"].Tasks != 20 ||
		c["even"].Reward.Low == nil {
		t.Errorf("categories %+v", r.Categories)
	}
	if len(r.Failed) != 1 || len(r.Lowest) != 10 || len(r.Lowest[0].Answer) > 400 || r.Lowest[0].Links[0].Href != "artifacts/t00/0/" {
		t.Errorf("failed %+v, lowest %+v", r.Failed, r.Lowest)
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<a href="../s-matrix/matrix.html">matrix</a>`, `<a href="artifacts/t04/0/">artifacts</a>`, "the box was lost",
		"1,234 tokens given, 56 written", `<a href="#graders">graders</a>`,
		"Reward by category", "<h2 id=\"graders\">", "temperature", ">t39<", "Tokens against reward", "since no cost is known",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("report.html lacks %q", want)
		}
	}
	if strings.Contains(page.String(), "Cost against reward") {
		t.Error("a plot of cost where there is none")
	}
	free, paid := 0.0, 0.25
	s := sample("free", 0, 1)
	s.Cost = &free
	b.Add(s)
	r, err = b.Report(report.Options{Planned: 43})
	if err != nil {
		t.Fatal(err)
	}
	page.Reset()
	if err := r.HTML(&page); err != nil || strings.Contains(page.String(), "Cost against reward") {
		t.Errorf("costs of 0 are plotted (%v)", err)
	}
	s = sample("paid", 0, 1)
	s.Cost = &paid
	b.Add(s)
	r, err = b.Report(report.Options{Planned: 43})
	if err != nil {
		t.Fatal(err)
	}
	page.Reset()
	if err := r.HTML(&page); err != nil || !strings.Contains(page.String(), "Cost against reward") {
		t.Errorf("costs are not plotted (%v)", err)
	}
}

// What a report holds beside its figures has a bound: labels with too many values are no
// categories, and of many failures the lowest rewards are kept.
func TestDetailsAreBounded(t *testing.T) {
	b := report.New(report.Head{})
	for i := range 3000 {
		s := sample(fmt.Sprint("t", i), 0, float64(i)/3000)
		s.Labels = []report.Label{{Key: "id", Value: fmt.Sprint(i)}}
		s.Parts = map[string]float64{fmt.Sprint("part", i): 1}
		b.Add(s)
		b.Add(report.Sample{Task: fmt.Sprint("f", i), Failure: trajectory.Provider})
	}
	r, err := b.Report(report.Options{Planned: 6000})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Categories) != 0 || len(r.Graders) > 100 || len(r.Failed) > 100 || len(r.Lowest) > 100 {
		t.Errorf("%d categories, %d graders, %d failed, %d lowest", len(r.Categories), len(r.Graders), len(r.Failed), len(r.Lowest))
	}
	for i, c := range r.Lowest {
		if c.Task != fmt.Sprint("t", i) {
			t.Fatalf("lowest %d is %s", i, c.Task)
		}
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil || page.Len() > 400<<10 || !strings.Contains(page.String(), "5500 more are not listed") {
		t.Errorf("%d bytes (%v)", page.Len(), err)
	}
}

// TestGroups: a group with its rewards, text escaped, and links.
func TestGroups(t *testing.T) {
	tr := trajectory.New(trajectory.ModeText, nil)
	if _, err := tr.Commit(trajectory.Turn{Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "<b>\x1b[2J")}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, "four")}, Finish: "stop"}); err != nil {
		t.Fatal(err)
	}
	rec := &trajectory.Record{Row: "row<1>", Trace: tr, Outcome: trajectory.Answered}
	var page bytes.Buffer
	g, err := report.NewGroups(&page, "run<x>", []report.Link{{Name: "report", Href: "report.html"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Add([]*trajectory.Record{rec, rec}, []trajectory.Score{{Reward: 0}, {Reward: 1, Detail: "<i>"}}), g.End(1, 2)); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{
		"row&lt;1&gt;", `<a href="report.html">report</a>`, "mean of 2 samples, 0 to 1", `<span class="r r5">0.5</span>`,
		"1 groups; 2 incomplete", "&lt;i&gt;", "four", "</html>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("groups.html lacks %q", want)
		}
	}
	if strings.Contains(text, "<b>\x1b") || strings.Contains(text, "\x1b") {
		t.Error("what a model wrote is not escaped")
	}
}

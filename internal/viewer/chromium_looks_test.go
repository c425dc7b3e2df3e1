package viewer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"hermes/envs/grade/report"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// colours makes the browser prefer light or dark pages.
func colours(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	})
}

// TestChromiumLooks: every kind of page can be read in light and dark, on a wide and on a narrow
// screen: nothing scrolls sideways, letters have contrast, controls have names and can be reached
// by keyboard. testdata/looks.js measures.
func TestChromiumLooks(t *testing.T) {
	looks, err := os.ReadFile("testdata/looks.js")
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t)
	dir := filepath.Join(t.TempDir(), "a-run-with-a-long-name-of-a-matrix-terminal+file-system-short-temperature-0.7")
	makeRun(t, dir)
	base := open(t, dir).URL + "/"
	pages := map[string]string{
		"runs":    base,
		"run":     base + "#run/0",
		"samples": base + "#samples/0/book=",
		"tasks":   base + "#tasks/0",
		"sample":  base + "#record/0/" + key(1, 0).String(),
		"hostile": base + "#record/0/" + key(4, 0).String(),
		"tokens":  base + "#record/0/" + key(10, 0).String(),
		"diff":    base + "#diff/0:" + key(1, 0).String() + "/0:" + key(4, 0).String(),
	}
	for name, file := range reportPages(t) {
		pages[name] = (&url.URL{Scheme: "file", Path: file}).String()
	}
	then := map[string]string{
		"tokens":  `[...document.querySelectorAll(".branches button")][1].click()`, // the abandoned one
		"samples": `document.querySelector("#old").click()`,
	}
	for name, address := range pages {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1400, 390} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, scheme, width), func(t *testing.T) {
					b.t = t
					b.do(colours(scheme), chromedp.EmulateViewport(width, 900), chromedp.Navigate("about:blank"), chromedp.Navigate(address))
					if strings.HasPrefix(address, "http") {
						b.until(`document.body.dataset.ready && [...document.querySelectorAll("main > section:not([hidden])")].some(s => s.textContent.trim())`)
					}
					if name == "samples" {
						b.until(rowCount + ` === 12`)
					}
					if js := then[name]; js != "" {
						b.until(`(` + js + `, true)`)
					}
					wrong, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](string(looks)))
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range wrong {
						t.Error(w)
					}
				})
			}
		}
	}
	b.t = t
}

// reportPages writes report.html, matrix.html and groups.html with all that they can have.
func reportPages(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{}
	write := func(name string, page func(w io.Writer) error) {
		t.Helper()
		files[name] = filepath.Join(dir, name+".html")
		f, err := os.Create(files[name])
		if err == nil {
			err = errors.Join(page(f), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := report.NewMatrix("suite")
	for _, run := range []string{"suite-terminal-system-short-temperature-0", "suite-terminal+file-system-short-temperature-0.7"} {
		r, list := reportOf(t, run)
		samples := func(yield func(report.Sample, error) bool) {
			for _, s := range list {
				if !yield(s, nil) {
					return
				}
			}
		}
		if err := m.Add(r, samples, nil); err != nil {
			t.Fatal(err)
		}
		write("report", r.HTML)
	}
	m.Lack(report.Head{Suite: "suite", Run: "never"}, "it was not begun")
	m.Finish()
	for i := range m.Cells {
		m.Cells[i].Href = "../report.html"
	}
	write("matrix", m.HTML)
	write("groups", func(w io.Writer) error {
		g, err := report.NewGroups(w, "run", []report.Link{{Name: "report", Href: "report.html"}})
		if err != nil {
			return err
		}
		pair := []*trajectory.Record{textRecord(t, 1, 0, "An answer."), textRecord(t, 1, 1, hostile)}
		return errors.Join(g.Add(pair, []trajectory.Score{{Reward: 1}, {Reward: 0.2}}), g.End(1, 0))
	})
	return files
}

// reportOf is a report with graders, categories, failures, costs and settings.
func reportOf(t *testing.T, run string) (*report.Report, []report.Sample) {
	t.Helper()
	b := report.New(report.Head{Suite: "suite", Model: "a-model-of-some-name", Run: run, Grader: "number", Toolsets: "terminal,file"})
	var list []report.Sample
	for i := range 80 {
		reward := float64(i%4) / 3
		s := report.Sample{Task: fmt.Sprint("a-task-with-a-name-", i/2), Number: i % 2, Reward: &reward, Turns: i % 5, Tokens: 12345,
			Parts: map[string]float64{"number": reward, "contains": 1}, Why: "read 7", Answer: strings.Repeat("an answer ", 40),
			Labels: []report.Label{{Key: "category", Value: []string{"number theory", "a category with a long name"}[i/2%2]}}}
		list = append(list, s)
		b.Add(s)
	}
	b.Add(report.Sample{Task: "lost", Failure: trajectory.Sandbox, Why: "the box was lost"})
	r, err := b.Report(report.Options{
		Planned:  81,
		Books:    stats.Statistics{Judge: &stats.Judge{Model: "wise", Asked: 3, Tokens: stats.Tokens{Prompt: 1234, Completion: 56}}},
		Settings: []report.Setting{{Name: "temperature", Value: "0.7"}, {Name: "grader", Value: `[{"kind":"number","weight":3}]`}},
		Links:    []report.Link{{Name: "matrix", Href: "matrix.html"}},
		Link: func(c report.Case) []report.Link {
			return []report.Link{{Name: "artifacts", Href: "artifacts/" + c.Task + "/0/"}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, list
}

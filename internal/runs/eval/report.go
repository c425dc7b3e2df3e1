package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"hermes/envs/grade/report"
	"hermes/internal/exit"
	"hermes/internal/whole"
	"hermes/rollout/event/tensorboard"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory/stats"
)

// errNoSamples says that a run has nothing to report.
var errNoSamples = errors.New("the run has no finished sample: nothing to report")

// WriteReport writes report.json, report.md and report.html of a run, or scores/NAME.*
// where scores names a re-scoring, each in one step.
func WriteReport(ctx context.Context, dir, scores string, strict bool) (*report.Report, error) {
	r, err := runs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rep, err := reportOf(ctx, r, scores, strict)
	if err != nil {
		return nil, err
	}
	if rep.Samples.Pending == rep.Samples.Planned {
		return rep, exit.Usage(fmt.Errorf("%s: %w", dir, errNoSamples))
	}
	base := filepath.Join(dir, "report")
	if scores != "" {
		base = filepath.Join(dir, "scores", scores)
	}
	return rep, writePages(rep, base)
}

// WriteReportPage writes report.html alone, which links to the run's other pages.
func WriteReportPage(ctx context.Context, dir string) error {
	r, err := runs.Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	rep, err := reportOf(ctx, r, "", false)
	if err != nil {
		return err
	}
	return whole.Write(filepath.Join(dir, "report.html"), rep.HTML)
}

// WriteEvents writes the figures of a run as an event file for TensorBoard into a folder.
// It is named for the run's begin, step and name, so that writing it again replaces it.
func WriteEvents(dir, into string, step int64, rep *report.Report) error {
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return exit.Usage(fmt.Errorf("--tensorboard: %w", err))
	}
	w, err := whole.Create(filepath.Join(into, fmt.Sprintf("%s.%d.%s", tensorboard.FileName(m.Created), step, filepath.Base(dir))))
	if err != nil {
		return exit.Usage(fmt.Errorf("--tensorboard: %w", err))
	}
	if err := tensorboard.Write(w, m.Created, step, rep.Scalars()); err != nil {
		return errors.Join(err, w.Drop())
	}
	return w.Keep()
}

// samplesOf yields what became of a run's samples, with the scores of `eval score` called
// name in the place of the recorded ones. totals, if not nil, counts what the run cost.
func samplesOf(ctx context.Context, r *runs.Run, name string, totals *stats.Totals) iter.Seq2[report.Sample, error] {
	return func(yield func(report.Sample, error) bool) {
		over, err := readScores(r.Dir, name)
		if err != nil {
			yield(report.Sample{}, err)
			return
		}
		for d := range decoded(ctx, r.Journal) {
			if d.err != nil {
				yield(report.Sample{}, d.err)
				return
			}
			if !d.final {
				if totals != nil {
					totals.Attempt(d.rec)
				}
				continue
			}
			if totals != nil {
				enter(totals, d.rec)
			}
			s := sampleOf(d.rec)
			if name != "" {
				s = over.lay(s, d.rec.Key)
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// reportOf makes the report of a run out of its log.
func reportOf(ctx context.Context, r *runs.Run, scores string, strict bool) (*report.Report, error) {
	head := headOf(r)
	if scores != "" {
		h, err := readScoresHead(r.Dir, scores)
		if err != nil {
			return nil, err
		}
		head.Grader = h.Grader
	}
	b, totals := report.New(head), stats.New(r.Manifest.Tools)
	for s, err := range samplesOf(ctx, r, scores, totals) {
		if err != nil {
			return nil, err
		}
		b.Add(s)
	}
	return finishReport(r, b, totals, scores, strict)
}

// finishReport makes the figures of a run whose samples b has taken in.
func finishReport(r *runs.Run, b *report.Builder, totals *stats.Totals, scores string, strict bool) (*report.Report, error) {
	text, _ := r.Manifest.Identity.Get("seed")
	seed, _ := strconv.ParseInt(text, 10, 64) // of other runs: 0
	return b.Report(report.Options{Planned: r.Manifest.Extent.Planned, Strict: strict, Seed: uint64(seed), Books: totals.Statistics(r.Manifest.Extent.Planned),
		Settings: settingsOf(r.Manifest), Links: linksOf(r.Dir, "report", up(scores)), Link: sampleLinks(r.Dir, up(scores))})
}

// pages is a report of one run or of several.
type pages interface {
	Markdown(w io.Writer) error
	HTML(w io.Writer) error
}

// writePages writes a report as BASE.json, BASE.md and BASE.html.
func writePages(rep pages, base string) error {
	return errors.Join(
		whole.Write(base+".json", func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(rep)
		}),
		whole.Write(base+".md", rep.Markdown), whole.Write(base+".html", rep.HTML))
}

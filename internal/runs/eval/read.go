package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"hermes/envs/grade/report"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/internal/whole"
	"hermes/rollout/event/tensorboard"
	"hermes/rollout/journal"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// chunk is how many records are read and decoded side by side.
const chunk = 256

// read is a record on its way out of the log.
type read struct {
	rec   *trajectory.Record
	final bool
	err   error
}

// decoded yields the attempts that were tried again and the last word on each sample, in
// log order. It holds a few at a time and decodes them on all cores.
func decoded(ctx context.Context, j *journal.Journal) iter.Seq[read] {
	return func(yield func(read) bool) {
		var places []journal.Entry
		flush := func() bool {
			out := make([]read, len(places))
			parallel(len(places), func(i int) {
				out[i].rec, out[i].err = places[i].Record()
				out[i].final = places[i].Kind == journal.KindFinal
			})
			places = places[:0]
			for _, r := range out {
				if !yield(r) || r.err != nil {
					return false
				}
			}
			return true
		}
		for e, err := range j.Records(ctx, 0) {
			if err != nil {
				yield(read{err: err})
				return
			}
			if e.Kind != journal.KindAttempt && (e.Kind != journal.KindFinal || !e.Current) {
				continue
			}
			e, err = e.Keep()
			if err != nil {
				yield(read{err: err})
				return
			}
			places = append(places, e)
			if len(places) == chunk && !flush() {
				return
			}
		}
		flush()
	}
}

// parallel calls f for 0 … n−1 on all cores.
func parallel(n int, f func(i int)) { side(runtime.GOMAXPROCS(0), n, f) }

// side calls f for 0 … n−1 on some goroutines, side by side.
func side(workers, n int, f func(i int)) {
	workers = min(n, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}

// sampleOf is what a report needs of a record.
func sampleOf(r *trajectory.Record) report.Sample {
	s := report.Sample{Task: r.Row, Number: r.Sample, Tokens: r.Usage.Prompt + r.Usage.Completion, Written: r.Usage.Completion, Seconds: r.Seconds,
		Key: r.Key, Outcome: r.Outcome, Why: r.Reason}
	s.Cluster, s.Labels = labelsOf(r.Metadata)
	if r.Usage.CostKnown {
		s.Cost = &r.Usage.Cost
	}
	for _, c := range r.ToolStats {
		s.Calls += c.Count
	}
	if r.Trace != nil {
		s.Turns = r.Trace.Turns()
	}
	if r.Outcome.Failure() {
		s.Failure = r.Outcome
		return s
	}
	return scored(s, r.Score)
}

// scored lays a score over a sample; nil: it has none.
func scored(s report.Sample, by *trajectory.Score) report.Sample {
	s.Reward = nil
	s.Wanted = 0
	s.Answer = ""
	s.Parts = nil
	if by != nil {
		s.Reward, s.Wanted = &by.Reward, int(by.Metrics["calls_wanted"])
		s.Answer, s.Parts, s.Why = by.Answer, by.Parts, cmp.Or(by.Detail, s.Why)
	}
	return s
}

// headOf is what a report says about a run.
func headOf(r *runs.Run) report.Head {
	id := func(name string) string { v, _ := r.Manifest.Identity.Get(name); return v }
	h := report.Head{Suite: id("suite"), Model: id("model"), Run: filepath.Base(r.Dir), Grader: id("judged-by"), Toolsets: id("toolsets")}
	if id("oracle") == "true" {
		h.Model = settings.Oracle
	}
	if h.Suite == "" { // no evaluation, but it has rewards
		h.Suite, h.Grader = h.Run, id("grader")
	}
	return h
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

// enter counts a final record: what failed by our fault, and all else.
func enter(totals *stats.Totals, rec *trajectory.Record) {
	book := stats.Accepted
	if rec.Outcome.Failure() {
		book = stats.Failed
	}
	totals.Final(rec, book, string(rec.Outcome))
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

// Compare pairs the samples of two runs. Runs that were asked different things, or judged
// differently, are refused.
func Compare(ctx context.Context, dirA, dirB, scores string) (*report.Comparison, error) {
	var rs [2]*runs.Run
	for i, dir := range []string{dirA, dirB} {
		r, err := runs.Open(dir)
		if err != nil {
			return nil, exit.Usage(err)
		}
		defer r.Close()
		rs[i] = r
	}
	if err := sameSuite(rs[0], rs[1], scores); err != nil {
		return nil, exit.Usage(err)
	}
	c, err := report.Compare(headOf(rs[0]), headOf(rs[1]), samplesOf(ctx, rs[0], scores, nil), samplesOf(ctx, rs[1], scores, nil), 0)
	if errors.Is(err, report.ErrNothingToCompare) || errors.Is(err, os.ErrNotExist) {
		return nil, exit.Usage(err)
	}
	return c, err
}

// sameSuite objects to runs whose rewards say different things.
func sameSuite(a, b *runs.Run, scores string) error {
	differs := func(what, x, y string) error {
		if x == y {
			return nil
		}
		return fmt.Errorf("%s and %s cannot be compared: their %s differs (%q and %q)", a.Dir, b.Dir, what, x, y)
	}
	id := func(r *runs.Run, name string) string { v, _ := r.Manifest.Identity.Get(name); return v }
	judged := func(r *runs.Run) string { return id(r, "grader") }
	bench := func(r *runs.Run) string { return judgesOf(r) }
	if scores != "" {
		heads := map[*runs.Run]scoresHead{}
		for _, r := range []*runs.Run{a, b} {
			h, err := readScoresHead(r.Dir, scores)
			if err != nil {
				return err
			}
			heads[r] = h
		}
		judged = func(r *runs.Run) string { return heads[r].Grader }
		bench = func(r *runs.Run) string { raw, _ := json.Marshal(heads[r].Judges); return string(raw) }
	}
	return cmp.Or(differs("suite", id(a, "suite"), id(b, "suite")), differs("environment", id(a, "env"), id(b, "env")),
		differs("dataset", a.Manifest.Extent.Dataset, b.Manifest.Extent.Dataset), differs("grader", judged(a), judged(b)), differs("judges", bench(a), bench(b)))
}

// judgesOf are the models that judged a run, as its identity says.
func judgesOf(r *runs.Run) string {
	list := map[string]string{}
	for _, f := range r.Manifest.Identity {
		if _, ok := policy.Role(f.Name).JudgeName(); ok {
			list[f.Name] = f.Value
		}
	}
	raw, _ := json.Marshal(list) // texts
	return string(raw)
}

package eval

import (
	"cmp"
	"context"
	"iter"
	"path/filepath"
	"runtime"
	"sync"

	"hermes/envs/grade/report"
	"hermes/internal/settings"
	"hermes/rollout/journal"
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
		s.Answer = by.Answer
		s.Parts = by.Parts
		s.Why = cmp.Or(by.Detail, s.Why)
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

// enter counts a final record: what failed by our fault, and all else.
func enter(totals *stats.Totals, rec *trajectory.Record) {
	book := stats.Accepted
	if rec.Outcome.Failure() {
		book = stats.Failed
	}
	totals.Final(rec, book, string(rec.Outcome))
}

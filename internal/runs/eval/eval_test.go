package eval_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hermes/configs"
	"hermes/datasets"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/runs/eval"
	"hermes/internal/settings"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

func quiet() build.Host {
	return build.Host{Env: func(string) string { return "" }, Section: func(name string) configs.Section { return configs.Section{Name: name} },
		Out: io.Discard, Err: io.Discard, Handler: func(io.Writer) slog.Handler { return slog.DiscardHandler }, Backends: build.Backends(nil)}
}

// stored makes a run of n arithmetic rows, four samples each, as an evaluation leaves it.
// Every third sample is wrong; failing are ended by our fault.
func stored(tb testing.TB, n int, failing func(row, sample int) bool) (dir string) {
	tb.Helper()
	const rollouts = 4
	file := filepath.Join(tb.TempDir(), "rows.jsonl")
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, `{"id":"row-%d","question":"What is %d + %d? Answer with a number.","answer":"We add them.\n#### %d"}`+"\n", i, i, i, 2*i)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		tb.Fatal(err)
	}
	d, err := datasets.Open(tb.Context(), datasets.Options{}, file)
	if err != nil {
		tb.Fatal(err)
	}
	print, err := d.Fingerprint(tb.Context())
	if err := errors.Join(err, d.Close()); err != nil {
		tb.Fatal(err)
	}
	m := rundir.Manifest{
		Identity: rundir.Fields{{Name: "env", Value: "rows"},
			{Name: "model", Value: "m"},
			{Name: "seed", Value: "0"},
			{Name: "grader", Value: "number"},
			{Name: "suite", Value: "rows"}},
		Extent: rundir.Extent{Dataset: print, Rollouts: rollouts, Planned: int64(n * rollouts)},
		Books:  rundir.Books{Mode: "eval"},
	}
	if err := m.Config.Encode(map[string]string{"dataset": file}); err != nil {
		tb.Fatal(err)
	}
	dir = filepath.Join(tb.TempDir(), "run")
	run, err := rundir.Open(tb.Context(), dir, m, rundir.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	const writers = 256 // they share one fsync
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n*rollouts; i += writers {
				if _, err := run.Journal.Append(context.Background(), arithmetic(i/rollouts, i%rollouts, failing(i/rollouts, i%rollouts))); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := run.Close(); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func arithmetic(row, sample int, failed bool) *trajectory.Record {
	id := fmt.Sprint("row-", row)
	r := &trajectory.Record{Key: trajectory.NewKey(id, 0, 0, sample), Group: id, Row: id, PromptIndex: int64(row), Sample: sample, Attempt: 1,
		Outcome: trajectory.Answered, Stop: trajectory.Stop{Reason: trajectory.StopAnswer}, Model: "m", Seconds: 1.5, Usage: trajectory.Usage{
			Prompt:     60,
			Completion: 40,
		}}
	said := 2 * row
	if (row+sample)%3 == 0 {
		said++
	}
	t := trajectory.New(trajectory.ModeText, nil)
	answer := fmt.Sprintf("%s The sum is\n#### %d", strings.Repeat("We think about it for a while. ", 20), said)
	if _, err := t.Commit(trajectory.Turn{
		Given:   []trajectory.Delta{{Message: trajectory.Text(trajectory.User, fmt.Sprintf("What is %d + %d? Answer with a number.", row, row))}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, answer)},
		Finish:  trajectory.FinishStop,
	}); err != nil {
		panic(err)
	}
	t.Finish(nil)
	r.Trace = t
	if failed {
		r.Outcome = trajectory.Provider
		r.Cause = "limited"
		r.Reason = "429"
		return r
	}
	r.Score = &trajectory.Score{Detail: "as it was"}
	if said == 2*row {
		r.Score.Reward = 1
	}
	return r
}

// TestStoredFailures: a third of the samples of a run failed by our fault. Scored again by
// the same rules nothing changes, and nothing becomes a zero.
func TestStoredFailures(t *testing.T) {
	dir := stored(t, 50, func(row, sample int) bool { return row%10 < 3 })
	r, err := eval.WriteReport(t.Context(), dir, "", false)
	if err != nil {
		t.Fatal(err)
	}
	e := r.Metrics["reward"]
	if r.Samples.Planned != 200 || r.Samples.Scored != 140 || r.Samples.Failed["provider"] != 60 || e.N != 140 || e.Tasks != 35 || r.Causes["limited"] != 60 {
		t.Errorf("%+v, %+v, %v", r.Samples, e, r.Causes)
	}
	right := int(e.Value*140 + 0.5)
	if *r.Bounds.Zero != float64(right)/200 || *r.Bounds.One != float64(right+60)/200 || e.Value < 0.6 || e.Value > 0.72 {
		t.Errorf("%v, %v to %v", e.Value, *r.Bounds.Zero, *r.Bounds.One)
	}
	again, err := eval.Rescore(t.Context(), quiet(), settings.Rescore{Scores: "again"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Scored != 140 || again.Kept != 60 || again.Changed != 0 || again.Errors != 0 || again.Report.Metrics["reward"].Value != e.Value {
		t.Errorf("%+v", again)
	}
	if again.Report.Metrics["maj@4"].N != 35 {
		t.Errorf("graders read numbers, so there are votes: %+v", again.Report.Metrics["maj@4"])
	}
	later, err := eval.WriteReport(t.Context(), dir, "again", false)
	one, _ := json.Marshal(again.Report)
	two, _ := json.Marshal(later)
	if err != nil || string(one) != string(two) {
		t.Errorf("the report of the stored scores is another one (%v):\n%s\n%s", err, one, two)
	}
	strict, err := eval.Rescore(t.Context(), quiet(), settings.Rescore{Scores: "strict", Strict: true}, dir)
	var coded *exit.Error
	if !errors.As(err, &coded) || coded.Code != 3 || len(strict.Report.Metrics) != 0 {
		t.Errorf("strict: %v, %v", err, strict.Report.Metrics)
	}
	none, err := eval.Rescore(t.Context(), quiet(), settings.Rescore{Scores: "none", Grader: "none"}, dir)
	if err != nil || none.Unscored != 140 || len(none.Report.Metrics) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	var raw map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "scores", "again.json"))
	if err := errors.Join(err, json.Unmarshal(text, &raw)); err != nil || raw["grader"] != "number" {
		t.Errorf("%v, %v", raw["grader"], err)
	}
	if j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{ReadOnly: true}); err != nil || j.Stats().Finals != 200 {
		t.Errorf("the journal has changed: %v", err)
	}
}

func TestMovedDataset(t *testing.T) {
	dir := stored(t, 2, func(int, int) bool { return false })
	other := filepath.Join(t.TempDir(), "other.jsonl")
	if err := os.WriteFile(other, []byte(`{"id":"row-0","question":"?","answer":"1"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := eval.Rescore(t.Context(), quiet(), settings.Rescore{Scores: "again", Datasets: []string{other}}, dir)
	var coded *exit.Error
	if !errors.As(err, &coded) || coded.Code != 2 || !strings.Contains(err.Error(), "not the one that the run was made with") {
		t.Error(err)
	}
}

// BenchmarkStored scores 100,000 samples again, reports and compares them. It tells the
// seconds of CPU too, on all cores, and the heap that a report leaves behind.
func BenchmarkStored(b *testing.B) {
	dir := stored(b, 25_000, func(row, _ int) bool { return row%10 == 0 })
	b.Run("score", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			r, err := eval.Rescore(b.Context(), quiet(), settings.Rescore{Scores: "again"}, dir)
			if err != nil || r.Scored != 90_000 {
				b.Fatalf("%+v, %v", r, err)
			}
		}
		b.ReportMetric((cpu()-start)/float64(b.N), "cpu-s/op")
	})
	b.Run("report", func(b *testing.B) {
		var m runtime.MemStats
		start := cpu()
		for b.Loop() {
			r, err := eval.WriteReport(b.Context(), dir, "", false)
			if err != nil || r.Samples.Scored != 90_000 {
				b.Fatalf("%+v, %v", r, err)
			}
		}
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/1e6, "MB-heap")
		b.ReportMetric((cpu()-start)/float64(b.N), "cpu-s/op")
	})
	b.Run("compare", func(b *testing.B) {
		start := cpu()
		for b.Loop() {
			if c, err := eval.Compare(b.Context(), dir, dir, ""); err != nil || c.Pairs != 90_000 {
				b.Fatalf("%+v, %v", c, err)
			}
		}
		b.ReportMetric((cpu()-start)/float64(b.N), "cpu-s/op")
	})
}

// cpu are the seconds that this process has worked.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

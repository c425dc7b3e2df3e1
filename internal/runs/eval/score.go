package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade/report"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/internal/whole"
	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Rescored tells what became of a re-scoring.
type Rescored struct {
	File     string `json:"file"`
	Grader   string `json:"grader"`
	Scored   int64  `json:"scored"`
	Unscored int64  `json:"unscored"`
	Kept     int64  `json:"failed"`   // samples that failed by our fault: nothing to judge
	Errors   int64  `json:"errors"`   // the grader failed; they have no score
	Replayed int64  `json:"replayed"` // judged in a box in which the sample was played again
	Changed  int64  `json:"changed"`  // rewards that are not what they were
	// Judges tells what each judge did; answers that were kept count as asked and cost
	// what they have cost.
	Judges []trajectory.Judged `json:"judges,omitempty"`
	Report *report.Report      `json:"report"`
}

// Rescore scores the samples of a run again, without asking a model, and writes
// scores/NAME.jsonl and its report. The journal stays as it is. The error has its
// exit code where the user can help it.
func Rescore(ctx context.Context, h build.Host, o settings.Rescore, dir string) (Rescored, error) {
	if !scoreName.MatchString(o.Scores) {
		return Rescored{}, exit.Usage(fmt.Errorf("--scores %q: want letters, digits, . _ -", o.Scores))
	}
	r, err := runs.Open(dir)
	if err != nil {
		return Rescored{}, exit.Usage(err)
	}
	defer r.Close()
	s := &rescoring{Rescore: o, host: h, run: r, totals: stats.New(r.Manifest.Tools)}
	if err := os.MkdirAll(filepath.Join(dir, "scores"), 0o700); err != nil {
		return Rescored{}, exit.Ours(err)
	}
	s.judges, err = openJudges(ctx, h, o.JudgeFlags, filepath.Join(dir, "scores", o.Scores+".judge.jsonl"))
	if err != nil {
		return Rescored{}, exit.Usage(err)
	}
	defer func() {
		if err := s.judges.close(); err != nil {
			fmt.Fprintf(h.Err, "hermes: close the judges' answers: %v\n", err)
		}
	}()
	defer func() {
		if s.player != nil {
			if err := s.player.Close(); err != nil {
				fmt.Fprintf(h.Err, "hermes: close the boxes: %v\n", err)
			}
		}
		if s.chosen != nil {
			if err := s.chosen.Close(); err != nil {
				fmt.Fprintf(h.Err, "hermes: close the environment: %v\n", err)
			}
		}
	}()
	if err := s.open(ctx); err != nil {
		return Rescored{}, exit.Usage(err)
	}
	defer s.data.Close()
	head := headOf(r)
	head.Grader = s.grader
	s.pages = report.New(head)
	out, err := s.walk(ctx)
	if err != nil {
		return out, err
	}
	out.Report, err = s.report(ctx)
	if err != nil {
		return out, err
	}
	switch {
	case out.Report.Refused != "":
		return out, exit.Failures(errors.New(out.Report.Refused))
	case out.Errors > 0:
		return out, exit.Failures(fmt.Errorf("the grader failed for %d samples, which have no score; %s says why", out.Errors, out.File))
	}
	return out, nil
}

// job is one sample to be scored.
type job struct {
	row    datasets.Row
	sample int
	at     journal.Offset

	rec    *trajectory.Record
	line   *scoreLine // nil: there is nothing to judge
	failed bool
	err    error
}

// aheadOfSlowest is how many samples may have been judged behind one that is not yet.
const aheadOfSlowest = 1024

// walk takes the rows in their order; samples are judged side by side.
func (s *rescoring) walk(ctx context.Context) (out Rescored, err error) {
	out = Rescored{File: filepath.Join(s.run.Dir, "scores", s.Scores+".jsonl"), Grader: s.grader}
	w, err := whole.Create(out.File)
	if err != nil {
		return out, err
	}
	workers := runtime.GOMAXPROCS(0)
	if len(s.judges.all) > 0 { // they are waited for
		workers = s.Concurrency
	}
	err = slide(ctx, workers, max(aheadOfSlowest, 4*workers), s.feed(ctx), s.score, func(j *job) error { return s.tell(w, j, &out) })
	if err != nil {
		return out, errors.Join(err, w.Drop())
	}
	out.Errors, out.Replayed = s.errs.Load(), s.replayed.Load()
	for _, name := range s.judges.names() {
		if u := s.judges.used[name]; u != nil {
			out.Judges = append(out.Judges, *u)
		}
	}
	if err := w.Keep(); err != nil {
		return out, err
	}
	return out, whole.Write(filepath.Join(s.run.Dir, "scores", s.Scores+".head.json"), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(scoresHead{Grader: s.grader, Judges: s.judges.models()})
	})
}

// feed gives the samples of the run in the order of the rows.
func (s *rescoring) feed(ctx context.Context) func(func(*job) bool) error {
	return func(put func(*job) bool) error {
		for row, err := range s.data.Rows(ctx) {
			var bad *datasets.RowError
			if errors.As(err, &bad) {
				continue // it was left out then, too
			}
			if err != nil {
				return err
			}
			for n := range max(1, s.run.Manifest.Extent.Rollouts) {
				at, ok := s.run.Journal.FinalAt(trajectory.NewKey(row.ID, 0, 0, n))
				if ok && !put(&job{row: row, sample: n, at: at}) {
					return nil
				}
			}
		}
		return nil
	}
}

func (s *rescoring) tell(w *whole.File, j *job, out *Rescored) error {
	if j.err != nil {
		return j.err
	}
	enter(s.totals, j.rec)
	if j.failed {
		out.Kept++
		s.pages.Add(sampleOf(j.rec))
		return nil
	}
	l := j.line
	s.pages.Add(l.verdict().lay(sampleOf(j.rec)))
	switch {
	case l.Reward != nil:
		out.Scored++
	case l.Error == "":
		out.Unscored++
	}
	if (l.Was == nil) != (l.Reward == nil) || l.Was != nil && *l.Was != *l.Reward {
		out.Changed++
	}
	return json.NewEncoder(w).Encode(l)
}

// score judges one sample out of its record, or in a box in which it is played again.
func (s *rescoring) score(ctx context.Context, j *job) {
	e, err := s.run.Journal.At(j.at)
	var rec *trajectory.Record
	if err == nil {
		rec, err = e.Record()
	}
	if err != nil {
		j.err = err
		return
	}
	j.rec = rec
	// A scorer that failed may be asked again; what else was our fault left nothing to judge.
	if rec.Trace == nil || rec.Outcome.Failure() && (rec.Outcome != trajectory.Environment || rec.Trace.Turns() == 0) {
		j.failed = true
		return
	}
	j.line = &scoreLine{Key: rec.Key, ID: rec.Row, Sample: rec.Sample}
	if rec.Score != nil && !rec.Outcome.Failure() {
		j.line.Was = &rec.Score.Reward
	}
	got, err := s.judge(ctx, j.row, rec)
	switch {
	case errors.Is(err, envs.ErrUnscored):
	case ctx.Err() != nil:
		j.err = context.Cause(ctx)
	case spent(err):
		j.err = exit.Stopped(fmt.Errorf("%w; with more of it the same command goes on, and what was answered is not asked again", err))
	case err != nil:
		s.errs.Add(1)
		j.line.Error = err.Error()
	case math.IsNaN(got.Reward) || math.IsInf(got.Reward, 0):
		s.errs.Add(1)
		j.line.Error = fmt.Sprintf("the reward is %v", got.Reward)
	default:
		j.line.trajectoryScore = trajectoryScore{&got.Reward, got.Parts, got.Metrics, got.Detail, got.Answer}
	}
}

func (s *rescoring) judge(ctx context.Context, row datasets.Row, rec *trajectory.Record) (trajectory.Score, error) {
	t, err := s.env.Task(row)
	if err != nil {
		return trajectory.Score{}, err
	}
	box, ok := s.env.(envs.NeedsBox)
	if (!ok || !box.NeedsBox(t)) && !s.keepsState() {
		seed := rec.Key.Seed(s.seed)
		w := envs.World{Rand: rand.New(rand.NewPCG(seed, seed)), State: &envs.State{}}
		bench := s.judges.sit(&w, rec, seed)
		got, err := s.env.Score(ctx, t, w, envs.Episode{Trace: rec.Trace, Stop: rec.Stop})
		if kerr := bench.rise(err); kerr != nil {
			return got, kerr
		}
		if !errors.Is(err, envs.ErrNoBox) {
			return got, err
		}
	}
	return s.again(ctx, row, rec)
}

// report makes the pages of the new scores. What attempts cost that were tried again is
// read in the log; the rest was seen on the way.
func (s *rescoring) report(ctx context.Context) (*report.Report, error) {
	for e, err := range s.run.Journal.Records(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if e.Kind == journal.KindAttempt {
			rec, err := e.Record()
			if err != nil {
				return nil, err
			}
			s.totals.Attempt(rec)
		}
	}
	rep, err := finishReport(s.run, s.pages, s.totals, s.Scores, s.Strict)
	if err != nil {
		return nil, err
	}
	if rep.Samples.Pending == rep.Samples.Planned {
		return rep, exit.Usage(fmt.Errorf("%s: %w", s.run.Dir, errNoSamples))
	}
	return rep, writePages(rep, filepath.Join(s.run.Dir, "scores", s.Scores))
}

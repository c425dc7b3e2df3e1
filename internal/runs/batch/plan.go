package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"hermes/internal/runs/rollouts"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// plan prints what a run would do and, as far as it can be known, what it would take. No
// model is asked for it: samples that the run directory holds already, from a pilot with
// --limit say, are the measure.
func plan(ctx context.Context, r *rollouts.Run, m rundir.Manifest) error {
	fmt.Fprintf(r.Host.Err, "%d rows, %d rollouts each: %d samples with %s; toolsets %s; %s\n",
		r.Report.Rows, r.Rollouts, m.Extent.Planned, r.Model.Name, strings.Join(r.Tools.Sets, ", "), r.Boxes.Note)
	p, err := readPilot(ctx, r)
	if err != nil {
		return err
	}
	if p.n > 0 {
		extrapolate(r, p, m.Extent.Planned)
		return nil
	}
	if price := r.Model.Price(); price != nil {
		const prompt, completion = 12_000, 800 // a short agent's turn
		turns := float64(m.Extent.Planned) * float64(max(1, r.MaxTurns/2))
		fmt.Fprintf(r.Host.Err, "rough estimate at %d turns of 12,000 + 800 tokens each: $%.2f\n",
			max(1, r.MaxTurns/2), turns*(prompt*price.Prompt+completion*price.Completion)/1e6)
	}
	fmt.Fprintln(r.Host.Err, "nothing is measured yet: run the same with --limit 20, a pilot, then this again")
	return nil
}

// pilot is what finished samples of the same model took.
type pilot struct {
	n                         int64
	tokens, cost, judge, time sample
	priced                    bool
}

// sample sums figures of samples.
type sample struct{ sum, square float64 }

func (s *sample) add(x float64) { s.sum += x; s.square += x * x }

// of is the sum over n further samples and its standard error, from k measured ones.
func (s sample) of(n, k float64) (total, wrong float64) {
	mean := s.sum / k
	deviation := math.Sqrt(max(0, s.square/k-mean*mean))
	return n * mean, n * deviation / math.Sqrt(k)
}

// readPilot reads the run directory, if there is one of the same model.
func readPilot(ctx context.Context, run *rollouts.Run) (p pilot, err error) {
	r, err := runs.Open(run.Job.Dir)
	if errors.Is(err, rundir.ErrNoRun) || errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	defer r.Close()
	if model, _ := r.Manifest.Identity.Get("model"); model != run.Model.Name {
		return p, nil
	}
	for e, err := range r.Journal.Records(ctx, 0) {
		if err != nil {
			return p, err
		}
		rec, err := e.Record()
		if err != nil {
			return p, err
		}
		if rec == nil || rec.Outcome.Failure() {
			continue
		}
		p.add(rec, run.Model.Price())
	}
	return p, ctx.Err()
}

func (p *pilot) add(rec *trajectory.Record, price *policy.Price) {
	u := price.Charge(rec.Usage)
	p.n++
	p.tokens.add(float64(u.Prompt + u.Completion))
	p.cost.add(u.Cost)
	p.time.add(rec.Seconds)
	p.priced = p.priced || u.CostKnown
	if j := rec.Judge; j != nil {
		p.judge.add(j.Usage.Cost)
		p.priced = p.priced || j.Usage.CostKnown
	}
}

// extrapolate tells what the samples that are left would take, with the error that is to
// be expected of a measure of this size (twice the standard error).
func extrapolate(r *rollouts.Run, p pilot, planned int64) {
	left, n := float64(max(0, planned-p.n)), float64(p.n)
	tokens, off := p.tokens.of(left, n)
	fmt.Fprintf(r.Host.Err, "measured on %d finished samples; the other %.0f: %.0f tokens ± %.0f", p.n, left, tokens, 2*off)
	if p.priced {
		cost, off := p.cost.of(left, n)
		judge, offJudge := p.judge.of(left, n)
		fmt.Fprintf(r.Host.Err, ", $%.2f ± %.2f", cost+judge, 2*math.Hypot(off, offJudge))
	} else {
		fmt.Fprint(r.Host.Err, ", cost unknown (neither the server nor --price tells)")
	}
	seconds, _ := p.time.of(left, n)
	wall := time.Duration(seconds / float64(max(1, r.Concurrency)) * float64(time.Second))
	fmt.Fprintf(r.Host.Err, ", about %s with %d at once, if the server keeps its pace\n", wall.Round(time.Second), r.Concurrency)
}

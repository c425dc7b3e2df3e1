package rollouts

import (
	"context"
	"fmt"

	"hermes/datasets"
	"hermes/envs/rows"
	"hermes/internal/build"
	"hermes/rollout/policy"
)

// openGrader settles by what the rows of a dataset are judged and that each of them has
// what it takes, before any model is asked.
func (r *Run) openGrader(ctx context.Context) error {
	var err error
	r.words.Grader, err = build.Grader(r.Grader, r.Rows(ctx, r.Data), func(line string) { fmt.Fprintln(r.Host.Err, line) })
	if err != nil {
		return err
	}
	r.tasks = rows.New(r.words)
	if r.words.Grader.IsZero() {
		return nil // a row with nothing to be judged by is kept without a score
	}
	var have []string
	for role := range r.Job.Roles {
		if name, ok := role.JudgeName(); ok {
			have = append(have, name)
		}
	}
	return build.CheckGrader(r.words.Grader, r.Rows(ctx, r.Data), have)
}

// checkJudge refuses judges whom nobody asks, and tells when rows would need one.
func (r *Run) checkJudge(ctx context.Context) error {
	if r.Env == nil && r.words.Grader.IsZero() {
		for name := range r.Roles.Judges() {
			return fmt.Errorf("--model-role judge_%s: no grader asks it; name it in one with --grader, or call it judge", name)
		}
	}
	if r.judged() {
		return nil
	}
	n, err := r.countRubrics(ctx)
	if n > 0 {
		fmt.Fprintf(r.Host.Err, "hermes: %d rows have only a rubric to be judged by; without --model-role judge=MODEL they are kept without a score\n", n)
	}
	return err
}

// countRubrics counts the rows that only a judge can score.
func (r *Run) countRubrics(ctx context.Context) (n int64, err error) {
	if !r.words.Grader.IsZero() || r.Report.Mapping.Scoring["rubric"] == 0 {
		return 0, nil
	}
	for row, err := range r.Data.Rows(ctx) {
		if err == nil && onlyRubric(row.Scoring) {
			n++
		}
	}
	return n, ctx.Err()
}

func onlyRubric(s datasets.Scoring) bool {
	return len(s.Rubric) > 0 && len(s.Checker)+len(s.ExpectedTools)+len(s.Expected)+len(s.Answer)+len(s.GroundTruth)+len(s.Solution) == 0
}

// judged reports whether a judge was named.
func (r *Run) judged() bool {
	_, ok := r.Job.Roles[policy.Judge]
	return ok
}

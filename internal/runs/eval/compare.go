package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"hermes/envs/grade/report"
	"hermes/internal/exit"
	"hermes/rollout/policy"
	"hermes/rollout/runs"
)

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

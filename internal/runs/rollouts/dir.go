package rollouts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"hermes/internal/exit"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// OpenDir opens the run directory with its lock. served: rows come again and again, so
// that there is no number of them to hold a resumed run to.
func (r *Run) OpenDir(ctx context.Context, want rundir.Manifest, served bool) error {
	dir, err := rundir.Open(ctx, r.Job.Dir, want, rundir.Options{Amend: r.Amend || served, Log: r.Log, Plan: r.planRows(ctx, served)})
	if err != nil {
		var rows *rowsError
		if errors.As(err, &rows) {
			return exit.Usage(err)
		}
		var mismatch *rundir.MismatchError
		var owned *rundir.OwnedError
		if errors.As(err, &mismatch) || errors.As(err, &owned) || errors.Is(err, rundir.ErrNoRun) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST) {
			return exit.Usage(err)
		}
		return exit.Ours(err)
	}
	r.Dir = dir
	r.closers.Add(dir.Close)
	if dir.Unnamed {
		fmt.Fprintf(r.Host.Err, "%s: the answers that it holds were sampled by the server's own settings where no flag named one; from here on every request names temperature, top-p, top-k and min-p (run.yaml: books.sampling)\n", dir.Path)
	}
	if r.RetryFailed {
		if err := dir.Journal.Reopen(ctx, dir.Journal.Failed()); err != nil {
			return exit.Ours(err)
		}
	}
	if r.Model.Budget != nil || len(r.RoleBudgetUSD) > 0 {
		for e, err := range dir.Journal.Records(ctx, 0) {
			if err != nil {
				return exit.Ours(err)
			}
			if rec, err := e.Record(); err == nil && rec != nil {
				r.spent(rec)
			}
		}
	}
	return nil
}

// spent counts in the budgets what a record of an earlier start has cost.
func (r *Run) spent(rec *trajectory.Record) {
	r.Model.Budget.Spend(rec.Usage)
	if rec.Judge == nil {
		return
	}
	members := rec.Judge.Members
	if len(members) == 0 {
		members = []trajectory.Judged{*rec.Judge}
	}
	for _, j := range members {
		r.Roles.Budget(policy.JudgeRole(j.Name)).Spend(j.Usage)
	}
}

package backends

import (
	"context"
	"sync"
)

// Job is one command of a batch, in a new box or in one that it shares.
type Job struct {
	Box Sandbox
	Cmd Cmd
}

// Done is what became of a Job. Err means that its box failed, as of Sandbox.Exec.
type Done struct {
	Result Result
	Err    error
}

// ExecBatch runs jobs, at most parallel at once (0: 16), and gives their outcomes in the
// order of the jobs. One that fails fails alone; jobs that had not begun when ctx ended
// have its error.
func ExecBatch(ctx context.Context, jobs []Job, parallel int) []Done {
	if parallel <= 0 {
		parallel = 16
	}
	all := make([]Done, len(jobs))
	next := make(chan int)
	var work sync.WaitGroup
	for range min(parallel, len(jobs)) {
		work.Go(func() {
			for i := range next {
				all[i].Err = ctx.Err()
				if all[i].Err == nil {
					all[i].Result, all[i].Err = jobs[i].Box.Exec(ctx, jobs[i].Cmd)
				}
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	work.Wait()
	return all
}

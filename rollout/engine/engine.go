// Package engine runs many rollouts at once: it pulls rows, drops what the log already
// holds, admits samples up to a bound, tries infrastructure failures again, writes every
// finished attempt to the log, and drains when it is asked to.
//
// One goroutine a rollout. Work is pulled: a slow log or a slow model is felt by the
// reader of the rows, not by the heap.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"hermes/datasets"
	"hermes/rollout"
	"hermes/rollout/event"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// Log is what the engine needs of the journal. It is safe for concurrent use.
type Log interface {
	Done(k trajectory.Key) bool
	// Attempts is how many attempts at k are already recorded.
	Attempts(k trajectory.Key) int
	// Tape replays what an unfinished attempt has bought and keeps what this one buys. Where
	// it has a method Err, an error of it ends the run, and the sample stays pending.
	Tape(k trajectory.Key, attempt int) (policy.Tape, error)
	// Attempt keeps a failed attempt that is followed by another one.
	Attempt(ctx context.Context, r *trajectory.Record) error
	// Final keeps the last word on a sample; it returns when the record is on disk.
	Final(ctx context.Context, r *trajectory.Record) error
	// Reopen takes the final failures of these keys back: they are pending again.
	Reopen(ctx context.Context, keys []trajectory.Key) error
}

// runner is what the engine needs of a rollout.
type runner interface {
	Run(ctx context.Context, j rollout.Job) (*trajectory.Record, error)
}

// Options tune an [Engine]. The zero value is usable.
type Options struct {
	InFlight  int           // rollouts at once; 0: 64
	Rollouts  int           // samples of a row; 0: 1
	Tries     int           // attempts of a sample that fails without the model's fault; 0: 3
	Pause     time.Duration // before the second attempt, doubled each time; 0: 1 s
	StopAfter int           // failures in a row of one cause that stop the run; a provider's stay pending; 0: never
	Drain     time.Duration // how long a drain waits before it cancels; 0: 60 s
	Seed      int64
	Toolsets  func(r *rand.Rand) []string // drawn once a group; nil: none
	// Memory is the budget of this process in bytes; 0: none. While there is no room for
	// one more rollout as large as those that ended, none is admitted; those that run go
	// on, and one may always run. The runtime's own limit should be set to it.
	Memory   int64
	Guess    int64        // what a rollout needs, until some have ended; 0: that of a short conversation
	Used     func() int64 // live bytes of this process; nil: the runtime's figures
	Observer event.Observer
	Log      *slog.Logger
}

// Engine runs jobs. Use it once.
type Engine struct {
	run runner
	log Log
	o   Options
	mem *memory

	steer *steer

	warned bool // a shortage of memory was logged; only admission uses it

	mu        sync.Mutex
	summary   Summary
	succeeded bool
	streak    []trajectory.Key // failures in a row of one cause
	cause     string
	before    []trajectory.Key // failures of the cause that late successes came between
	late      int              // such successes
	gaveUp    bool             // the streak has stopped the run
	down      bool             // and it is a provider's
	stop      func(error)
}

// Summary says how a run ended.
type Summary struct {
	Planned int64 // samples that the rows ask for, as far as they were read
	Skipped int64 // already in the log
	Ended   int64 // recorded by this run
	// Stopped is nil when all rows were read and all samples are recorded; else why not:
	// ErrDrained, ErrBudget, ErrFailures, ErrRefused or the error of rows or log.
	Stopped error
}

// The reasons for which a run stops early.
var (
	ErrDrained  = errors.New("the run was asked to stop")
	ErrBudget   = errors.New("a budget is spent")
	ErrFailures = errors.New("too many failures in a row")
	ErrRefused  = errors.New("the model server refuses us")
	ErrLog      = errors.New("the log cannot be written")
)

// New returns an engine for one run.
func New(run runner, log Log, o Options) (*Engine, error) {
	for name, n := range map[string]int{"in flight": o.InFlight, "rollouts": o.Rollouts, "tries": o.Tries, "stop after failures": o.StopAfter} {
		if n < 0 {
			return nil, fmt.Errorf("%s: %d is negative", name, n)
		}
	}
	if o.Memory < 0 {
		return nil, fmt.Errorf("memory: %d is negative", o.Memory)
	}
	o.InFlight, o.Rollouts, o.Tries = cmp.Or(o.InFlight, 64), cmp.Or(o.Rollouts, 1), cmp.Or(o.Tries, 3)
	o.Pause, o.Drain = cmp.Or(o.Pause, time.Second), cmp.Or(o.Drain, time.Minute)
	if o.Toolsets == nil {
		o.Toolsets = func(*rand.Rand) []string { return nil }
	}
	if o.Observer == nil {
		o.Observer = event.Discard
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Engine{run: run, log: log, o: o, mem: newMemory(o.Memory, o.Guess, o.Used), steer: newSteer(o.InFlight)}, nil
}

// Run rolls out every row. Closing drain stops admission; what runs then may finish
// within Options.Drain. It returns after every goroutine that it started has returned.
// Samples that were not finished are simply not in the log.
func (e *Engine) Run(ctx context.Context, drain <-chan struct{}, rows iter.Seq2[datasets.Row, error]) Summary {
	return e.RunJobs(ctx, drain, func(context.Context) iter.Seq2[rollout.Job, error] { return e.jobs(rows) })
}

// RunJobs is Run for a caller that makes its own keys, groups and seeds. The context that
// jobs gets ends with admission, so that a source may wait for a trainer.
func (e *Engine) RunJobs(ctx context.Context, drain <-chan struct{}, jobs func(context.Context) iter.Seq2[rollout.Job, error]) Summary {
	admit, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e.stop = stop
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { e.watch(drain, admit, ended, stop, cancel) })

	var running sync.WaitGroup
	start := func(j rollout.Job) bool {
		alone, end := context.WithCancelCause(work)
		if !e.steer.begin(admit, j, end) {
			end(nil)
			return false
		}
		e.mem.begin()
		running.Go(func() {
			defer end(nil)
			rec := e.one(alone, j)
			e.mem.end()
			if e.steer.end(j, rec) {
				e.o.Observer.Observe(event.RolloutCancelled{Key: j.Key})
			}
		})
		return true
	}
	err := e.pull(admit, jobs(admit), start)
	if err != nil {
		stop(err)
	}
	for j, ok := e.steer.next(admit); ok && start(j); j, ok = e.steer.next(admit) {
	}
	running.Wait()
	if n := e.steer.pending(); n > 0 {
		stop(fmt.Errorf("%w: %d", ErrCancelled, n)) // where nothing else has stopped it
	}
	close(ended)
	watch.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.summary.Stopped = context.Cause(admit)
	if e.down {
		// It fails every sample: that is no result of theirs.
		failed := append(e.before, e.streak...)
		if err := e.log.Reopen(context.WithoutCancel(ctx), failed); err != nil {
			e.summary.Stopped = fmt.Errorf("%w: %w", ErrLog, err)
		} else {
			e.summary.Ended -= int64(len(failed))
		}
	}
	return e.summary
}

// watch turns a drain into the end of admission, and a drain that takes too long into
// the end of everything.
func (e *Engine) watch(drain <-chan struct{}, admit context.Context, ended <-chan struct{}, stop, cancel context.CancelCauseFunc) {
	select {
	case <-ended:
		return
	case <-drain:
		stop(ErrDrained)
	case <-admit.Done():
	}
	t := time.NewTimer(e.o.Drain)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		cancel(ErrDrained)
	}
}

// jobs are the samples of all rows in order.
func (e *Engine) jobs(rows iter.Seq2[datasets.Row, error]) iter.Seq2[rollout.Job, error] {
	return func(yield func(rollout.Job, error) bool) {
		for row, err := range rows {
			if err != nil {
				yield(rollout.Job{}, fmt.Errorf("read rows: %w", err))
				return
			}
			var toolsets []string
			for sample := range e.o.Rollouts {
				key := trajectory.NewKey(row.ID, 0, 0, sample)
				if sample == 0 { // the group's first key seeds what all of its samples share
					toolsets = e.o.Toolsets(DrawRand(key, e.o.Seed))
				}
				if !yield(rollout.Job{Row: row, Key: key, Group: row.ID, Sample: sample, Toolsets: toolsets, Seed: key.Seed(e.o.Seed)}, nil) {
					return
				}
			}
		}
	}
}

// DrawRand is the generator from which the toolsets of a group are drawn: first is the
// key of its first sample, seed the run's.
func DrawRand(first trajectory.Key, seed int64) *rand.Rand {
	return rand.New(rand.NewPCG(first.Seed(seed), 0x746f6f6c73657473))
}

// pull hands the jobs that are not done to start.
func (e *Engine) pull(ctx context.Context, jobs iter.Seq2[rollout.Job, error], start func(rollout.Job) bool) error {
	for j, err := range jobs {
		if err != nil {
			return err
		}
		if done := e.planned(j.Key); done {
			continue
		}
		if err := e.mem.wait(ctx, e.short); err != nil {
			return err
		}
		for again, ok := e.steer.queued(); ok; again, ok = e.steer.queued() {
			if !start(again) {
				return nil
			}
		}
		if !start(j) {
			return nil
		}
	}
	return nil
}

// short says that admission waits for memory.
func (e *Engine) short(used, each int64) {
	level := slog.LevelDebug
	if !e.warned {
		level, e.warned = slog.LevelWarn, true
	}
	e.o.Log.Log(context.Background(), level, "memory is short: no rollout is begun until others end", "live", used, "rollout", each, "budget", e.o.Memory)
}

func (e *Engine) planned(k trajectory.Key) (done bool) {
	done = e.log.Done(k)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.summary.Planned++
	if done {
		e.summary.Skipped++
	}
	return done
}

// one tries a sample until it has an outcome that is not our fault, or the tries are over.
// It returns the record that was written last, or nil when the sample is pending.
func (e *Engine) one(ctx context.Context, j rollout.Job) *trajectory.Record {
	before := e.log.Attempts(j.Key)
	for try := 1; ; try++ {
		j.Attempt = before + try
		var err error
		j.Tape, err = e.log.Tape(j.Key, j.Attempt)
		if err != nil {
			e.stop(fmt.Errorf("%w: %w", ErrLog, err))
			return nil
		}
		rec, err := e.run.Run(ctx, j)
		if err != nil {
			return nil // interrupted: pending, and resumed by the next start
		}
		if t, ok := j.Tape.(interface{ Err() error }); ok && t.Err() != nil {
			e.stop(fmt.Errorf("%w: %w", ErrLog, t.Err())) // no fault of the sample: pending
			return nil
		}
		if e.refused(rec) {
			return nil
		}
		if rec.Outcome.Failure() && try < e.o.Tries && again(rec) {
			if err := e.log.Attempt(context.WithoutCancel(ctx), rec); err != nil {
				e.stop(fmt.Errorf("%w: %w", ErrLog, err))
				return nil
			}
			e.o.Log.Warn("trying again", "rollout", j.Key, "row", j.Row.ID, "attempt", j.Attempt, "cause", rec.Cause, "reason", rec.Reason)
			e.o.Observer.Observe(event.Retry{Key: j.Key, Attempt: j.Attempt, Cause: rec.Cause, Err: errors.New(rec.Reason)})
			if !e.pause(ctx, j, try) {
				return nil
			}
			continue
		}
		e.mem.learn(rec)
		e.final(ctx, rec)
		return rec
	}
}

// again tells causes that may pass from those that will not.
func again(rec *trajectory.Record) bool {
	switch policy.ErrorKind(rec.Cause) {
	case policy.Auth, policy.NoModel, policy.NoTools, policy.Rejected, policy.Leaked:
		return false
	}
	return rec.Outcome != trajectory.Sandbox || rec.Cause != "image" && rec.Cause != "unavailable"
}

// refused stops the run for what concerns every sample: a spent budget, or a server that
// refuses us before anything succeeded. Such samples stay pending.
func (e *Engine) refused(rec *trajectory.Record) bool {
	if rec.Outcome != trajectory.Provider {
		return false
	}
	kind := policy.ErrorKind(rec.Cause)
	if kind == policy.Budget {
		e.stop(fmt.Errorf("%w: %s", ErrBudget, rec.Reason))
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.succeeded {
		return false
	}
	switch kind {
	case policy.Auth, policy.NoModel, policy.Leaked:
		e.stop(fmt.Errorf("%w: %s", ErrRefused, rec.Reason))
	case policy.NoTools:
		e.stop(fmt.Errorf("%w: %s (another --model, its server with tool calling switched on, or --toolsets none)", ErrRefused, rec.Reason))
	default:
		return false
	}
	return true
}

func (e *Engine) final(ctx context.Context, rec *trajectory.Record) {
	cause := string(rec.Outcome) + "/" + rec.Cause
	if e.downFor(rec, cause) {
		if err := e.log.Attempt(context.WithoutCancel(ctx), rec); err != nil {
			e.stop(fmt.Errorf("%w: %w", ErrLog, err))
		}
		return
	}
	// A record that is ready is kept even when the run was cancelled meanwhile.
	if err := e.log.Final(context.WithoutCancel(ctx), rec); err != nil {
		e.stop(fmt.Errorf("%w: %w", ErrLog, err))
		return
	}
	e.o.Observer.Observe(event.RolloutEnded{Key: rec.Key, Record: rec})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.summary.Ended++
	if !rec.Outcome.Failure() {
		e.succeeded = true
		if !e.gaveUp {
			e.succeededLate()
		}
		return
	}
	if e.gaveUp && e.down && cause == e.cause {
		e.streak = append(e.streak, rec.Key) // it was being written when the run gave up
	}
	if e.o.StopAfter == 0 || e.gaveUp {
		return
	}
	if cause != e.cause {
		e.streak = nil
		e.before = nil
		e.cause = cause
	}
	e.streak = append(e.streak, rec.Key)
	if n := len(e.streak); n >= e.o.StopAfter {
		e.gaveUp, e.down = true, rec.Outcome == trajectory.Provider
		after := "which --retry-failed tries again"
		if e.down {
			after = "which are pending again"
		}
		e.stop(fmt.Errorf("%w: %d of cause %s, %s; the last: %s", ErrFailures, n, cause, after, rec.Reason))
	}
}

// succeededLate ends a streak. What was in flight when the provider went down may have been
// answered before: the failures on the other side of it belong to the same outage, unless
// more samples have succeeded than there were in flight.
func (e *Engine) succeededLate() {
	e.before, e.streak = append(e.before, e.streak...), nil
	if len(e.before) > 0 {
		e.late++
	}
	if len(e.before) == 0 || e.late > e.o.InFlight {
		e.before = nil
		e.cause = ""
		e.late = 0
	}
}

// downFor reports whether a failure is of the provider that has stopped the run. Its sample
// stays pending.
func (e *Engine) downFor(rec *trajectory.Record, cause string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.down && rec.Outcome.Failure() && cause == e.cause
}

// pause waits before another attempt; the jitter comes from the sample's seed.
func (e *Engine) pause(ctx context.Context, j rollout.Job, try int) bool {
	d := min(e.o.Pause<<(try-1), time.Minute)
	r := rand.New(rand.NewPCG(j.Seed, uint64(j.Attempt)))
	t := time.NewTimer(d/2 + time.Duration(r.Int64N(int64(d))))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

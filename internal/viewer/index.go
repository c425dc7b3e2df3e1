package viewer

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// row is what the list knows of one record. Numbers that are not known are NaN.
type row struct {
	At      journal.Offset
	Key     trajectory.Key
	ID      string
	Sample  int
	Attempt int
	Outcome trajectory.Outcome
	Book    string // accepted, rejected.truncated …; retried: an attempt that another one followed
	Reason  string
	Reward  float64
	Turns   int
	Tokens  int64 // given and written
	Cost    float64
	Seconds float64
	Started time.Time
	Model   string
	Task    string // how the first message of the user begins
	Answer  string // how the last answer begins
	Tools   []string
	Old     bool // a later record or reopen of the key stands in the log
}

const (
	clipped   = 160              // bytes of task, answer and reason that the index keeps
	saveEvery = 10 * time.Second // at most, while an index grows
	lookEvery = time.Second      // at a log that may have grown, at most
)

// index is the list of a run. One goroutine, follow, makes it grow; others read it.
type index struct {
	run   *runs.Run
	clerk *sink.Clerk
	log   *slog.Logger
	poke  chan struct{} // somebody looks
	saved time.Time     // follow's alone
	dirty bool          // follow's alone: there are rows that are not in the file

	mu      sync.RWMutex
	rows    []row
	last    map[trajectory.Key]int // the newest row of each key
	next    journal.Offset
	settled journal.Offset // up to here everything is done, the file too
	end     journal.Offset // of the log when it was looked at last
	err     error
	changed chan struct{}
}

// openIndex reads the index that is kept in the run directory, where it is that of its log.
func openIndex(r *runs.Run, log *slog.Logger) (*index, error) {
	clerk, err := sink.NewClerk(r.Journal, r.Manifest)
	if err != nil {
		return nil, err
	}
	x := &index{run: r, clerk: clerk, log: log, poke: make(chan struct{}, 1), last: map[trajectory.Key]int{}, changed: make(chan struct{}), end: r.Journal.Synced()}
	kept, err := readIndex(r.Dir)
	if err == nil && kept.fits(r) {
		x.rows, x.next, x.settled = kept.Rows, kept.Next, kept.Next
		for i, w := range x.rows {
			x.last[w.Key] = i
		}
	} else if err != nil {
		log.Debug("the index is made anew", "run", r.Dir, "why", err)
	}
	return x, nil
}

// follow brings the index up to the log whenever somebody looks, until ctx ends.
func (x *index) follow(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	defer func() {
		if x.dirty {
			x.save()
		}
	}()
	for {
		err := x.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			x.log.Warn("the index stands still", "run", x.run.Dir, "err", err)
		}
		x.mu.Lock()
		x.err = err
		x.tell()
		x.mu.Unlock()
		pause.Reset(lookEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-x.poke:
		case <-ctx.Done():
			return
		}
	}
}

// tell wakes those that wait. The caller holds mu.
func (x *index) tell() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// look asks follow to look at the log again.
func (x *index) look() {
	select {
	case x.poke <- struct{}{}:
	default:
	}
}

// wait returns when the index has come to the end of the log as it was known.
func (x *index) wait(ctx context.Context) error {
	for {
		x.mu.RLock()
		done, err, changed := x.settled >= x.end, x.err, x.changed
		x.mu.RUnlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// step takes in what the log holds beyond the index.
func (x *index) step(ctx context.Context) error {
	if err := x.run.Journal.Refresh(); err != nil {
		return err
	}
	end := x.run.Journal.Synced()
	x.mu.Lock()
	x.end = end
	at := x.next
	x.mu.Unlock()
	if at >= end {
		return nil
	}
	begun := time.Now()
	for e, err := range x.run.Journal.Records(ctx, at) {
		if err != nil {
			return err
		}
		if err := x.add(e); err != nil {
			return err
		}
		if x.dirty = true; time.Since(begun) > saveEvery && time.Since(x.saved) > saveEvery {
			x.save()
		}
	}
	x.mu.Lock()
	x.next = max(x.next, end) // what lies between holds no records
	x.mu.Unlock()
	if x.dirty = true; time.Since(x.saved) > saveEvery {
		x.save()
	}
	x.mu.Lock()
	x.settled = x.next
	x.mu.Unlock()
	return nil
}

// save keeps the index in the run directory. Where that cannot be written it is made anew
// next time.
func (x *index) save() {
	x.saved, x.dirty = time.Now(), false
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := writeIndex(x.run, x.rows, x.next); err != nil {
		x.log.Debug("the index is not kept", "run", x.run.Dir, "err", err)
	}
}

// add takes in one entry of the log.
func (x *index) add(e journal.Entry) error {
	var w row
	switch e.Kind {
	case journal.KindFinal, journal.KindAttempt:
		rec, err := e.Record()
		if err != nil {
			return err
		}
		w = newRow(e.At, rec)
		if w.Book = "retried"; e.Kind == journal.KindFinal {
			in, err := x.clerk.Enter(e.At, rec)
			if err != nil {
				return err
			}
			if w.Book = string(in.Book); in.Sub != "" {
				w.Book += "." + in.Sub
			}
			w.Reason = clip(in.Why)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e.Kind {
	case journal.KindFinal, journal.KindAttempt, journal.KindReopen:
		if i, ok := x.last[e.Key]; ok {
			x.rows[i].Old = true
		}
		if e.Kind != journal.KindReopen {
			x.last[e.Key] = len(x.rows)
			x.rows = append(x.rows, w)
		}
	}
	x.next = e.Next
	return nil
}

func newRow(at journal.Offset, r *trajectory.Record) row {
	w := row{At: at, Key: r.Key, ID: r.Row, Sample: r.Sample, Attempt: r.Attempt, Outcome: r.Outcome, Reason: clip(r.Reason), Turns: r.Trace.Turns(),
		Tokens: r.Usage.Prompt + r.Usage.Completion, Reward: math.NaN(), Cost: math.NaN(), Seconds: r.Seconds, Started: r.Started, Model: r.Model}
	if r.Score != nil {
		w.Reward = r.Score.Reward
	}
	if r.Usage.CostKnown {
		w.Cost = r.Usage.Cost
	}
	for _, m := range r.Trace.Visible() {
		switch {
		case m.Role == trajectory.User && w.Task == "":
			w.Task = clip(m.Content())
		case m.Role == trajectory.Assistant:
			if text := m.Content(); text != "" {
				w.Answer = clip(text)
			}
		}
	}
	for name := range r.ToolStats {
		w.Tools = append(w.Tools, name)
	}
	slices.Sort(w.Tools)
	return w
}

// clip is the beginning of a text in one line.
func clip(s string) string {
	cut := s[:min(len(s), 4*clipped)]
	cut = strings.Join(strings.Fields(cut), " ")
	if len(cut) > clipped {
		cut = cut[:clipped]
	}
	return strings.ToValidUTF8(cut, "") // a character that was cut in two
}

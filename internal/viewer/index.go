package viewer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
)

const (
	saveEvery = 10 * time.Second // at most, while an index grows
	lookEvery = time.Second      // at a log that may have grown, at most
)

// index is the list of a run. One goroutine, follow, makes it grow; others read it.
type index struct {
	run    *runs.Run
	sorter *sink.Sorter
	log    *slog.Logger
	poke   chan struct{} // a page looks at the run
	ours   bool          // the process of the run keeps no list; it is ours to keep one
	saved  time.Time     // follow's alone
	dirty  bool          // follow's alone: there are rows that are not in the file

	mu      sync.RWMutex
	list    *listing.List
	settled journal.Offset // up to here everything is done, the file too
	end     journal.Offset // of the log when it was looked at last
	err     error
	changed chan struct{}

	counting  sync.Mutex     // held with mu, for what follows
	counted   *runView       // what the rows came to; nil: they were not counted
	countedTo journal.Offset // Next of the list then
}

// kept is the list of a run directory as it was read, or why it was not.
type kept struct {
	list *listing.List
	by   listing.Keeper
	err  error
}

// openRun opens a run directory, and reads its list meanwhile.
func openRun(dir string) (*runs.Run, kept, error) {
	read := make(chan kept, 1)
	go func() {
		var k kept
		m, err := rundir.Read(journal.OS{}, dir)
		k.err = err
		if err == nil {
			k.list, k.by, k.err = listing.Read(dir, m.Created)
		}
		read <- k
	}()
	r, err := runs.Open(dir)
	return r, <-read, err
}

// openIndex takes the list that was kept, where it is that of the run's log.
func openIndex(r *runs.Run, k kept, log *slog.Logger) (*index, error) {
	sorter, err := sink.NewSorter(r.Journal, r.Manifest)
	if err != nil {
		return nil, err
	}
	x := &index{run: r, sorter: sorter, log: log, poke: make(chan struct{}, 1), list: &listing.List{}, changed: make(chan struct{}), end: r.Journal.Synced()}
	if k.err == nil && !r.Fits(k.list) {
		k.err = errors.New("it is one of another log")
	}
	if k.err != nil {
		x.ours = true
		log.Debug("the index is made again", "run", r.Dir, "why", k.err)
		return x, nil
	}
	x.list = k.list
	x.settled = k.list.Next
	x.ours = k.by == listing.ByReader
	return x, nil
}

// follow brings the index up to the log whenever a page looks, until ctx ends.
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
			x.log.Warn("the index did not follow the log", "run", x.run.Dir, "err", err)
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
		done := x.settled >= x.end
		err := x.err
		changed := x.changed
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
	at := x.list.Next
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
		x.dirty = true
		if time.Since(begun) > saveEvery && time.Since(x.saved) > saveEvery {
			x.save()
		}
	}
	x.mu.Lock()
	x.list.Next = max(x.list.Next, end) // what lies between holds no records
	x.mu.Unlock()
	x.dirty = true
	if time.Since(x.saved) > saveEvery {
		x.save()
	}
	x.mu.Lock()
	x.settled = x.list.Next
	x.mu.Unlock()
	return nil
}

// save keeps the index in the run directory, unless the process of the run does. Where it
// cannot be written it is made again next time.
func (x *index) save() {
	x.saved, x.dirty = time.Now(), false
	if !x.ours {
		return
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := listing.Write(x.run.Dir, x.run.Manifest.Created, x.list); err != nil {
		x.log.Debug("the index is not kept", "run", x.run.Dir, "err", err)
	}
}

// add takes in one entry of the log.
func (x *index) add(e journal.Entry) error {
	w, ok, err := runs.RowOf(x.sorter, e)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case ok:
		x.list.Add(w, e.Next)
	case e.Kind == journal.KindReopen:
		x.list.Reopen(e.Key, e.Next)
	default:
		x.list.Next = e.Next
	}
	return nil
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hermes/rollout"
	"hermes/trajectory"
)

// The reasons for which steering is refused, and how samples end by it.
var (
	// ErrCancelled is why a run stops that has nothing left but samples that were
	// cancelled: they are pending.
	ErrCancelled = errors.New("samples were cancelled")
	// ErrUnknown says that the run holds no such sample that could be steered.
	ErrUnknown = errors.New("no such sample")
)

// mostHeld bounds the samples that are kept for Requeue. Beyond it the oldest are left to
// the next start.
const mostHeld = 10_000

// Flight is one rollout that is going on.
type Flight struct {
	Key    trajectory.Key
	Row    string
	Sample int
	Since  time.Time
}

// Steering is the state of a run. Times and counts are those of this start.
type Steering struct {
	Paused   bool
	InFlight int      // rollouts at once
	Flying   []Flight // oldest first
	Queued   int      // asked for again, not yet begun
	Held     int      // cancelled: pending until they are asked for again
	Ended    int64
}

// steer is what can be changed of a run that goes on: its places, and who may have one.
// It is safe for concurrent use.
type steer struct {
	mu      sync.Mutex
	changed chan struct{} // closed and made again by each change
	paused  bool
	limit   int
	flying  map[trajectory.Key]*flight
	queue   []rollout.Job
	held    []held // oldest first
	over    bool   // nothing is begun any more
}

type flight struct {
	job    rollout.Job
	since  time.Time
	cancel context.CancelCauseFunc
	ending bool // it was asked to end
	again  bool // when it has ended, it is begun once more
}

// held is a sample that may be asked for again: cancelled, or failed for good.
type held struct {
	job    rollout.Job
	failed bool
}

func newSteer(limit int) *steer {
	return &steer{limit: limit, changed: make(chan struct{}), flying: map[trajectory.Key]*flight{}}
}

// tell wakes those that wait. The caller holds mu.
func (s *steer) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// begin waits for a place and takes it; false when ctx ended first.
func (s *steer) begin(ctx context.Context, j rollout.Job, cancel context.CancelCauseFunc) bool {
	for {
		s.mu.Lock()
		free := ctx.Err() == nil && !s.paused && len(s.flying) < s.limit
		if free {
			s.flying[j.Key] = &flight{job: j, since: time.Now(), cancel: cancel}
		}
		changed := s.changed
		s.mu.Unlock()
		if free {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// end gives the place back. rec is what was recorded; nil: the sample is pending. It
// reports whether the sample is pending because it was cancelled.
func (s *steer) end(j rollout.Job, rec *trajectory.Record) (cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flying[j.Key]
	delete(s.flying, j.Key)
	switch {
	case rec == nil && f.again:
		s.queue = append(s.queue, j)
	case rec == nil && f.ending:
		s.hold(held{job: j})
	case rec != nil && rec.Outcome.Failure():
		s.hold(held{job: j, failed: true})
	}
	s.tell()
	return rec == nil && f.ending
}

func (s *steer) hold(h held) {
	s.held = append(s.held, h)
	if len(s.held) > mostHeld {
		s.held = slices.Delete(s.held, 0, len(s.held)-mostHeld)
	}
}

// queued takes the next sample that was asked for again, if there is one.
func (s *steer) queued() (rollout.Job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return rollout.Job{}, false
	}
	j := s.queue[0]
	s.queue = s.queue[1:]
	return j, true
}

// next waits for a sample that is asked for again; false when none can come any more,
// because nothing runs, or because ctx has ended.
func (s *steer) next(ctx context.Context) (rollout.Job, bool) {
	for ctx.Err() == nil {
		s.mu.Lock()
		s.over = len(s.flying) == 0 && len(s.queue) == 0
		over, changed := s.over, s.changed
		s.mu.Unlock()
		if over {
			return rollout.Job{}, false
		}
		if j, ok := s.queued(); ok {
			return j, true
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return rollout.Job{}, false
}

// pending counts the samples that were cancelled and not asked for again.
func (s *steer) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.held {
		if !h.failed {
			n++
		}
	}
	return n
}

// named reports whether a sample is meant by an id: its key, ROW/SAMPLE, or ROW for the
// first sample of a row.
func named(j rollout.Job, id string) bool {
	return id == j.Key.String() || id == fmt.Sprintf("%s/%d", j.Row.ID, j.Sample) || id == j.Row.ID && j.Sample == 0
}

func (s *steer) find(id string) *flight {
	for _, f := range s.flying {
		if named(f.job, id) {
			return f
		}
	}
	return nil
}

// Pause stops admission; what is in flight goes on.
func (e *Engine) Pause() { e.admission(true) }

// Resume lets samples in again.
func (e *Engine) Resume() { e.admission(false) }

func (e *Engine) admission(paused bool) {
	e.steer.mu.Lock()
	defer e.steer.mu.Unlock()
	e.steer.paused = paused
	e.steer.tell()
}

// SetInFlight changes how many rollouts may run at once. Those that run beyond a smaller
// number go on.
func (e *Engine) SetInFlight(n int) error {
	if n < 1 {
		return fmt.Errorf("concurrency %d: want at least 1", n)
	}
	e.steer.mu.Lock()
	defer e.steer.mu.Unlock()
	e.steer.limit = n
	e.steer.tell()
	return nil
}

// errTold is the cause of the end of a rollout that was cancelled by its id.
var errTold = errors.New("the sample was cancelled")

// Cancel interrupts a sample that is in flight: KEY, ROW or ROW/SAMPLE. It stays pending,
// with the answers that it has bought; the next start goes on with it, or Requeue.
func (e *Engine) Cancel(id string) (trajectory.Key, error) {
	e.steer.mu.Lock()
	defer e.steer.mu.Unlock()
	f := e.steer.find(id)
	if f == nil {
		return trajectory.Key{}, fmt.Errorf("cancel %q: %w is in flight (status lists those that are)", id, ErrUnknown)
	}
	f.ending, f.again = true, false
	f.cancel(errTold)
	return f.job.Key, nil
}

// Requeue begins a sample once more: one in flight is interrupted first, one that was
// cancelled goes on, one that failed without the model's fault is tried again. Finished
// samples stay as they are.
func (e *Engine) Requeue(ctx context.Context, id string) (trajectory.Key, error) {
	s := e.steer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return trajectory.Key{}, fmt.Errorf("requeue %q: the run is ending; the same command resumes it", id)
	}
	if f := s.find(id); f != nil {
		f.ending, f.again = true, true
		f.cancel(errTold)
		return f.job.Key, nil
	}
	i := slices.IndexFunc(s.held, func(h held) bool { return named(h.job, id) })
	if i < 0 {
		return trajectory.Key{}, fmt.Errorf("requeue %q: %w is in flight, or was cancelled or failed since this start; "+
			"what failed earlier is tried again by --retry-failed, and accepted or rejected samples stay as they are", id, ErrUnknown)
	}
	h := s.held[i]
	if h.failed {
		log, ok := e.log.(interface {
			Reopen(ctx context.Context, keys []trajectory.Key) error
		})
		if !ok {
			return trajectory.Key{}, fmt.Errorf("requeue %q: the log of this run cannot take a failure back", id)
		}
		if err := log.Reopen(ctx, []trajectory.Key{h.job.Key}); err != nil {
			return trajectory.Key{}, fmt.Errorf("requeue %q: %w", id, err)
		}
	}
	s.held = slices.Delete(s.held, i, i+1)
	s.queue = append(s.queue, h.job)
	s.tell()
	return h.job.Key, nil
}

// Steering returns the state of the run.
func (e *Engine) Steering() Steering {
	held := e.steer.pending()
	e.steer.mu.Lock()
	out := Steering{Paused: e.steer.paused, InFlight: e.steer.limit, Queued: len(e.steer.queue), Held: held}
	for k, f := range e.steer.flying {
		out.Flying = append(out.Flying, Flight{Key: k, Row: f.job.Row.ID, Sample: f.job.Sample, Since: f.since})
	}
	e.steer.mu.Unlock()
	slices.SortFunc(out.Flying, func(a, b Flight) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Sample, b.Sample))
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	out.Ended = e.summary.Ended
	return out
}

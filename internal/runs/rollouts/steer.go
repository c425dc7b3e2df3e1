package rollouts

import (
	"context"
	"os"
	"time"

	"hermes/internal/control"
	"hermes/rollout/engine"
	"hermes/trajectory/stats"
)

// Steered is a run as its control socket sees it.
type Steered struct {
	*engine.Engine
	run   *Run
	meter *control.Meter
	books Books
	begun time.Time
}

// Books are the figures of a run that goes on.
type Books interface{ Books() stats.Statistics }

// Steered is the run as its control socket sees it.
func (r *Run) Steered(e *engine.Engine, meter *control.Meter, books Books) *Steered {
	return &Steered{Engine: e, run: r, meter: meter, books: books, begun: time.Now().UTC()}
}

// Listen opens the control socket of the run; a run that cannot have one goes on without.
// The function that it returns closes it.
func (r *Run) Listen(ctx context.Context, run control.Run) func() {
	s, err := control.Listen(ctx, r.Dir.Path, run, r.Log)
	if err != nil {
		r.Log.Warn("the run cannot be steered from outside", "err", err)
	}
	if r.Host.Opened != nil {
		r.Host.Opened(r.Dir.Path)
	}
	return func() {
		if s == nil {
			return
		}
		if err := s.Close(); err != nil {
			r.Log.Warn("close the control socket", "err", err)
		}
	}
}

// SetConcurrency implements control.Run. Requests and boxes that follow the concurrency
// are raised or lowered with it.
func (s *Steered) SetConcurrency(n int) error {
	if err := s.SetInFlight(n); err != nil {
		return err
	}
	s.run.Model.SetConcurrency(n)
	s.run.Boxes.SetConcurrency(n)
	return nil
}

// Status implements control.Run.
func (s *Steered) Status() control.Status {
	st := s.Steering()
	out := control.Status{Run: s.run.Dir.Path, PID: os.Getpid(), State: control.Running, Begun: s.begun, Concurrency: st.InFlight,
		InFlight: []control.Flight{}, Queued: st.Queued, Cancelled: st.Held, Rates: s.meter.Rates(), Books: s.books.Books()}
	if st.Paused {
		out.State = control.Paused
	}
	select {
	case <-s.run.Host.Drain:
		out.State = control.Draining
	default:
	}
	for _, l := range s.run.Model.Loads() {
		out.Servers = append(out.Servers, control.ModelServer{URL: l.Base, Requests: l.Flying, Limit: l.Limit, Most: l.Most, Queued: l.Queued,
			Pause: l.Pause.Seconds(), Again: l.Again, Longest: l.Longest.Seconds(), Chance: l.Chance})
	}
	for _, f := range st.Flying {
		attempt, turns := s.meter.Progress(f.Key)
		out.InFlight = append(out.InFlight, control.Flight{Key: f.Key, ID: f.Row, Sample: f.Sample, Attempt: attempt, Turns: turns,
			Seconds: time.Since(f.Since).Seconds()})
	}
	return out
}

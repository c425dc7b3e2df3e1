package app

import (
	"context"
	"os"
	"time"

	"hermes/internal/control"
	"hermes/rollout/engine"
	"hermes/rollout/policy/wire"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// steered is a run as its control socket sees it.
type steered struct {
	*engine.Engine
	meter *control.Meter
	books interface{ Books() stats.Statistics }
	name  string
	begun time.Time
	drain <-chan struct{}
	raise []func(int) // what is as large as the concurrency
	loads []func() []wire.Load
}

// steer opens the control socket of the run; a run that cannot have one goes on without.
// The function that it returns closes it.
func (b *batch) steer(ctx context.Context, e *engine.Engine, meter *control.Meter, books *sink.Projector) func() {
	return b.listen(ctx, &steered{Engine: e, meter: meter, books: books, name: b.dir.Path,
		begun: time.Now().UTC(), drain: b.host.Drain, raise: b.raise, loads: b.loads})
}

func (b *batch) listen(ctx context.Context, run control.Run) func() {
	s, err := control.Listen(ctx, b.dir.Path, run, b.log)
	if err != nil {
		b.log.Warn("the run cannot be steered from outside", "err", err)
	}
	if b.host.Opened != nil {
		b.host.Opened(b.dir.Path)
	}
	return func() {
		if s == nil {
			return
		}
		if err := s.Close(); err != nil {
			b.log.Warn("close the control socket", "err", err)
		}
	}
}

// SetConcurrency implements control.Run. Requests and boxes that follow the concurrency
// are raised or lowered with it.
func (s *steered) SetConcurrency(n int) error {
	if err := s.SetInFlight(n); err != nil {
		return err
	}
	for _, f := range s.raise {
		f(n)
	}
	return nil
}

// Status implements control.Run.
func (s *steered) Status() control.Status {
	st := s.Steering()
	out := control.Status{Run: s.name, PID: os.Getpid(), State: control.Running, Begun: s.begun, Concurrency: st.InFlight,
		InFlight: []control.Flight{}, Queued: st.Queued, Cancelled: st.Held, Rates: s.meter.Rates(), Books: s.books.Books()}
	if st.Paused {
		out.State = control.Paused
	}
	select {
	case <-s.drain:
		out.State = control.Draining
	default:
	}
	for _, loads := range s.loads {
		for _, l := range loads() {
			out.Servers = append(out.Servers, control.ModelServer{URL: l.Base, Requests: l.Flying, Limit: l.Limit, Most: l.Most, Queued: l.Queued,
				Pause: l.Pause.Seconds(), Again: l.Again, Longest: l.Longest.Seconds(), Chance: l.Chance})
		}
	}
	for _, f := range st.Flying {
		attempt, turns := s.meter.Progress(f.Key)
		out.InFlight = append(out.InFlight, control.Flight{Key: f.Key, ID: f.Row, Sample: f.Sample, Attempt: attempt, Turns: turns,
			Seconds: time.Since(f.Since).Seconds()})
	}
	return out
}

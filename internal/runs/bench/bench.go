// Package bench measures what the engine costs beside a model server.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"hermes/backends"
	"hermes/internal/settings"
)

// Bench measures what the engine costs beside a model server: rollouts of many turns
// against the scripted server at Base, which must run in another process.
type Bench struct {
	Base     string // of the server, ending in /v1
	API      string // of a trajectory server in another process; the shape serve posts to it
	Shape    string // plain, tool, long, flight, serve, batch or agentic
	Rollouts int
	Turns    int
	Context  int // bytes of the conversation, on average over the turns
	InFlight int
	Rounds   int           // the figures are medians over them
	Latency  time.Duration // with which the server answers
	Dir      string        // for the logs
	Backend  string        // of the shape agentic
	Typed    Typed         // what the shapes batch and agentic need
}

// Typed is what the shapes need that run `hermes batch` as a user types it, in this process.
type Typed struct {
	Hermes  func(ctx context.Context, args ...string) error      // runs a command line
	Backend func(ctx context.Context) (backends.Backend, error)  // the one that `hermes batch` takes
	Bash    func(ctx context.Context, dir, command string) error // bash -c on the host, its output read
	Free    string                                               // a model server without latency, ending in /v1
	Server  func() time.Duration                                 // processor time of the model server; 0: unknown
}

// shapes are what is measured, and how much of it by default.
var shapes = map[string]Bench{
	"plain":  {Rollouts: 300, Turns: 20, Context: 12_000, InFlight: 64, Rounds: 5},
	"tool":   {Rollouts: 300, Turns: 20, Context: 12_000, InFlight: 64, Rounds: 5},
	"long":   {Rollouts: 100, Turns: 20, Context: 74_000, InFlight: 64, Rounds: 5},
	"flight": {Rollouts: 10_000, Turns: 20, Context: 12_000, Rounds: 1, Latency: 5 * time.Second},
	"serve":  {Rollouts: 4_000, Turns: 20, Context: 12_000, Rounds: 1, Latency: 5 * time.Second},
	"batch":  {Rollouts: 500, Turns: 10, Context: 12_000, InFlight: 64, Rounds: 5},
	// ten commands and a last answer
	"agentic": {Rollouts: 2_000, Turns: 11, Context: 4_000, Rounds: 1, Latency: 5 * time.Second},
}

// New fills in what was not said. A latency of nil is the shape's; 0 is none.
func New(s settings.Bench) (Bench, error) {
	d, ok := shapes[s.Shape]
	if !ok {
		return d, fmt.Errorf("shape %q: want plain, tool, long, flight, serve, batch or agentic", s.Shape)
	}
	d.Shape = s.Shape
	d.Backend = s.Backend
	for _, f := range []struct {
		name string
		at   *int
		said *int
	}{{"rollouts", &d.Rollouts, s.Rollouts}, {"turns", &d.Turns, s.Turns}, {"bytes of context", &d.Context, s.Context}, {"rounds", &d.Rounds, s.Rounds}, {"in flight", &d.InFlight, s.Concurrency}} {
		if f.said == nil {
			continue
		}
		*f.at = *f.said
		if *f.at < 0 {
			return d, fmt.Errorf("%s: %d is negative", f.name, *f.at)
		}
	}
	if s.Latency != nil {
		d.Latency = *s.Latency
	}
	if d.Latency < 0 {
		return d, fmt.Errorf("latency: %v is negative", d.Latency)
	}
	d.InFlight = cmp.Or(d.InFlight, d.Rollouts)
	return d, nil
}

func (b Bench) typed() bool { return b.Shape == "batch" || b.Shape == "agentic" }

// step is how many bytes the other side adds in each turn, so that the mean context is
// Context: the n-th request holds n steps and n-1 answers.
func (b Bench) step() int {
	return max(1, (2*b.Context-(b.Turns-1)*answerBytes)/(b.Turns+1))
}

// stagger is the time over which the first rollouts start, so that a model with a latency
// is not asked by all of them at the same moments.
func (b Bench) stagger() time.Duration { return b.Latency }

// answerBytes is about what a model says in a turn.
const answerBytes = 200

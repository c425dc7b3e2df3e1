// Package event carries what happens in a run to those who watch: progress, metrics,
// transcripts. Events are small typed values; an [Observer] must not block for long.
package event

import (
	"time"

	"hermes/trajectory"
)

// Event is one of the types of this package.
type Event interface{ event() }

// RolloutStarted, TurnEnded … are sent in the order in which they happen in a rollout.
type (
	// RolloutStarted is sent when a sample is begun.
	RolloutStarted struct {
		Key     trajectory.Key
		Row     string
		Sample  int
		Attempt int
	}
	// Delta is a piece of a streaming answer. It may be dropped for a slow observer.
	Delta struct {
		Key       trajectory.Key
		Content   string
		Reasoning string
		Restart   bool // the answer starts again: forget what was shown of it
	}
	// TurnEnded is sent after each committed model answer.
	TurnEnded struct {
		Key     trajectory.Key
		Turn    int
		Message trajectory.Message
		Faults  []trajectory.Fault // what could not be read of the answer
		Usage   trajectory.Usage
		Took    time.Duration
		Replay  bool // the answer came from the journal
	}
	// CallStarted is sent before a tool runs.
	CallStarted struct {
		Key  trajectory.Key
		Call trajectory.Call
	}
	// CallEnded is sent after a tool ran.
	CallEnded struct {
		Key    trajectory.Key
		Call   trajectory.Call
		Result string
		Failed bool
		Took   time.Duration
	}
	// Retry is sent when an attempt failed and another one follows.
	Retry struct {
		Key     trajectory.Key
		Attempt int
		Cause   string
		Err     error
	}
	// RolloutEnded is sent after the record is on disk.
	RolloutEnded struct {
		Key    trajectory.Key
		Record *trajectory.Record
	}
	// RolloutCancelled is sent when a person cancelled a sample: the sample is pending.
	RolloutCancelled struct{ Key trajectory.Key }
	// Note is a sentence for people.
	Note struct{ Text string }
)

func (RolloutStarted) event()   {}
func (Delta) event()            {}
func (TurnEnded) event()        {}
func (CallStarted) event()      {}
func (CallEnded) event()        {}
func (Retry) event()            {}
func (RolloutEnded) event()     {}
func (RolloutCancelled) event() {}
func (Note) event()             {}

// Observer sees events. It is called from many goroutines at once.
type Observer interface{ Observe(Event) }

// Func is an Observer.
type Func func(Event)

// Observe calls f.
func (f Func) Observe(e Event) { f(e) }

// All tells every event to all observers, in order; nil ones are left out.
func All(os ...Observer) Observer {
	var list []Observer
	for _, o := range os {
		if o != nil {
			list = append(list, o)
		}
	}
	return Func(func(e Event) {
		for _, o := range list {
			o.Observe(e)
		}
	})
}

// Discard ignores everything.
var Discard Observer = Func(func(Event) {})

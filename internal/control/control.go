// Package control steers a run that is going on, from another process: a Unix socket in the
// run directory, one JSON object a line each way.
//
// The run's process calls [Listen]; [Dial] is the other end. Only the user who owns the run
// can open the socket (mode 0600). Nothing else is between a request and the run, so
// every request is a small closed set of words, and bounded.
package control

import (
	"context"
	"errors"
	"time"

	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Run is what can be steered. It is safe for concurrent use.
type Run interface {
	Status() Status
	Pause()  // nothing new is begun; what is in flight goes on
	Resume() // after Pause
	SetConcurrency(n int) error
	// Cancel interrupts a sample in flight (KEY, ROW or ROW/SAMPLE): it is pending then.
	Cancel(id string) (trajectory.Key, error)
	// Requeue begins a sample in flight, a cancelled or a failed one once more.
	Requeue(ctx context.Context, id string) (trajectory.Key, error)
}

// The states of a run.
const (
	Running  = "running"
	Paused   = "paused"
	Draining = "draining" // asked to stop: what is in flight may finish
)

// Status is what a run reports about itself.
type Status struct {
	Run         string           `json:"run"`
	PID         int              `json:"pid"`
	State       string           `json:"state"`
	Begun       time.Time        `json:"begun"` // this start
	Concurrency int              `json:"concurrency"`
	InFlight    []Flight         `json:"in_flight"` // oldest first
	Queued      int              `json:"queued"`    // asked for again, not yet begun
	Cancelled   int              `json:"cancelled"` // pending until they are asked for again
	Rates       Rates            `json:"rates"`
	Books       stats.Statistics `json:"books"` // as of a second ago
	Servers     []ModelServer    `json:"servers,omitempty"`
}

// ModelServer is what one model server carries, and what waits for it and why. Times are seconds.
type ModelServer struct {
	URL      string         `json:"url"`
	Requests int            `json:"requests"`          // in flight
	Limit    int            `json:"limit"`             // of them, as found out
	Most     int            `json:"most"`              // of them, as configured
	Queued   int            `json:"queued"`            // wait for a place below the limit
	Pause    float64        `json:"pause,omitempty"`   // the server asked all to wait
	Again    map[string]int `json:"again,omitempty"`   // wait before they are sent again, by why
	Longest  float64        `json:"longest,omitempty"` // of those waits, what is left
	Chance   float64        `json:"chance,omitempty"`  // share of requests that it refuses at any load
}

// Flight is one rollout that is going on.
type Flight struct {
	Key     trajectory.Key `json:"key"`
	ID      string         `json:"id"`
	Sample  int            `json:"sample"`
	Attempt int            `json:"attempt"`
	Turns   int            `json:"turns"` // answers so far
	Seconds float64        `json:"seconds"`
}

// Rates are means over the last Seconds, a minute at most.
type Rates struct {
	Seconds         float64 `json:"seconds"`
	SamplesAMinute  float64 `json:"samples_per_minute"`
	TokensASecond   float64 `json:"tokens_per_second"` // written by the model
	RequestsASecond float64 `json:"requests_per_second"`
}

// Request is one line to a run. Do is status, pause, resume, set, cancel or requeue.
type Request struct {
	Do          string `json:"do"`
	ID          string `json:"id,omitempty"`          // cancel, requeue
	Concurrency int    `json:"concurrency,omitempty"` // set
}

// Answer is the line that comes back. Error is a sentence; then nothing was changed.
type Answer struct {
	Error  string          `json:"error,omitempty"`
	Key    *trajectory.Key `json:"key,omitempty"` // cancel, requeue: the sample
	Status *Status         `json:"status,omitempty"`
}

// ErrNotRunning says that no process works on a run, or none that can be steered.
var ErrNotRunning = errors.New("the run is not running")

// socketName is the socket in a run directory.
const socketName = "control.sock"

const (
	maxLine  = 64 << 10        // bytes of a request
	maxConns = 16              // at once; more wait
	idleTime = 5 * time.Minute // a silent connection is closed
)

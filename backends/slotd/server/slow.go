//go:build linux

package server

import (
	"io"
	"net/http"
	"time"

	"hermes/backends/slotd/wire"
)

// slow ends a handler's reads and writes when its client takes or sends nothing for
// [wire.StallTime].
// stop must be called.
type slow struct {
	rc    *http.ResponseController
	w     http.ResponseWriter
	r     io.Reader
	since time.Time
}

func newSlow(w http.ResponseWriter, r *http.Request) *slow {
	s := &slow{rc: http.NewResponseController(w), w: w, r: r.Body}
	s.extend()
	return s
}

// extend gives the next piece its time. A deadline is dear enough not to be set for every piece.
func (s *slow) extend() {
	if now := time.Now(); now.Sub(s.since) > wire.StallTime/8 {
		s.since = now
		s.rc.SetReadDeadline(now.Add(wire.StallTime))
		s.rc.SetWriteDeadline(now.Add(wire.StallTime))
	}
}

// stop gives the end of the answer its time. The deadline of reads stays: net/http reads what is
// left of a body before it answers, and clears both deadlines when it has answered.
func (s *slow) stop() { s.rc.SetWriteDeadline(time.Now().Add(wire.StallTime)) }

func (s *slow) Read(p []byte) (int, error) {
	s.extend()
	return s.r.Read(p)
}

func (s *slow) Write(p []byte) (int, error) {
	s.extend()
	return s.w.Write(p)
}

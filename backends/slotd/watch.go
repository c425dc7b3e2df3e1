package slotd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// A client does not wait for ever for a server: one that says nothing for longer than it may
// work is lost. The time is the server's own bound and answerTime on top; content that moves in
// either direction starts it again.

// answerTime is what a client allows on top before it takes a server for lost.
const answerTime = 30 * time.Second

// errSilent is why a server is taken for lost.
var errSilent = errors.New("no answer within the bound of the call")

// patience is how long a call may say nothing.
func patience(method, path string, size int64) time.Duration {
	most := callTime
	switch head, _, _ := strings.Cut(path, "/"); {
	case head == "search":
		most = searchTime + callTime
	case head == "file" || head == "tar":
		most = stallTime + time.Duration(size>>18)*time.Second // 256 KiB a second at least
	case head == "reset" || head == "leases" || head == "drain":
		most = resetTime
	case head == "process" && method == http.MethodDelete:
		most = stallTime // grace, and the end of what does not hear
	}
	return most + answerTime
}

// watch is the clock of one call.
type watch struct {
	timer *time.Timer
	most  time.Duration
}

// watched begins it; the call is cancelled when its time is over.
func watched(most time.Duration, cancel context.CancelCauseFunc) *watch {
	return &watch{time.AfterFunc(most, func() { cancel(errSilent) }), most}
}

func (w *watch) moved() { w.timer.Reset(w.most) }
func (w *watch) stop()  { w.timer.Stop() }

// watchedReader is a stream whose progress counts.
type watchedReader struct {
	io.Reader
	w *watch
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.w.moved()
	}
	return n, err
}

// watchedBody is the body of an answer.
type watchedBody struct {
	watchedReader
	io.Closer
}

// slow ends a handler's reads and writes when its client takes or sends nothing for stallTime.
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
	if now := time.Now(); now.Sub(s.since) > stallTime/8 {
		s.since = now
		s.rc.SetReadDeadline(now.Add(stallTime))
		s.rc.SetWriteDeadline(now.Add(stallTime))
	}
}

// stop gives the end of the answer its time. The deadline of reads stays: net/http reads what is
// left of a body before it answers, and clears both deadlines when it has answered.
func (s *slow) stop() { s.rc.SetWriteDeadline(time.Now().Add(stallTime)) }

func (s *slow) Read(p []byte) (int, error) {
	s.extend()
	return s.r.Read(p)
}

func (s *slow) Write(p []byte) (int, error) {
	s.extend()
	return s.w.Write(p)
}

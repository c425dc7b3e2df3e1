package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"hermes/backends/slotd/wire"
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
	most := wire.CallTime
	switch head, _, _ := strings.Cut(path, "/"); {
	case head == "search":
		most = wire.SearchTime + wire.CallTime
	case head == "file" || head == "tar":
		most = wire.StallTime + time.Duration(size>>18)*time.Second // 256 KiB a second at least
	case head == "reset" || head == "leases" || head == "drain":
		most = wire.ResetTime
	case head == "process" && method == http.MethodDelete:
		most = wire.StallTime // grace, and the end of what does not hear
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

func (w *watch) stop() { w.timer.Stop() }

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

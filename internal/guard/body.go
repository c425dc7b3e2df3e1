package guard

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// ErrSlow is the error of a body that brings too little in its time.
var ErrSlow = errors.New("the body comes too slowly")

// quota is what a body must bring in each window, in bytes.
const quota = 160 << 10

// A body is waited for no longer than wholeTime in all, or, where larger ones are let in, than
// the largest takes with wholeRate, in bytes a second: at the least pace a gigabyte would hold its
// memory for 18 hours.
const (
	wholeTime = 30 * time.Minute
	wholeRate = 640 << 10
)

// wholeOf is how long bodies of at most so many bytes are waited for.
func wholeOf(most int64) time.Duration {
	return max(wholeTime, time.Duration(most/wholeRate)*time.Second)
}

// minRenew is how old a window is at least when a new one begins, and how long a handler
// pauses before that is not counted as the client's doing: a deadline costs a call into the
// runtime.
const minRenew = time.Second / 4

// pace is a body with a least speed: in every window it brings the quota, or ends. The whole
// body has a time limit, too. Time in which the handler does not read does not count.
type pace struct {
	io.ReadCloser
	window time.Duration
	set    func(time.Time) error // the deadline of reading
	guest  *guest                // nil in tests without a network

	begun time.Time     // of the window
	got   int           // in it
	fresh int           // since the guest was heard of
	last  time.Time     // when the last read ended
	left  time.Duration // of the time for the whole body, without that in which it is not read
	slow  bool
	done  bool
}

// pace puts a pace on a request's body. The caller calls end.
func (g *Guard) pace(w http.ResponseWriter, r *http.Request) *pace {
	p := &pace{ReadCloser: r.Body, window: g.opt.Window, left: wholeOf(g.opt.MaxBody)}
	p.guest, _ = r.Context().Value(guestKey{}).(*guest)
	if p.guest != nil {
		p.set = p.guest.Conn.SetReadDeadline
		p.guest.crowd.reads(p.guest)
	} else {
		p.set = http.NewResponseController(w).SetReadDeadline
	}
	p.begin(time.Now()) // what the server throws away after an early answer has its time, too
	return p
}

func (p *pace) begin(now time.Time) {
	p.begun = now
	p.got = 0
	p.last = now
	_ = p.set(now.Add(p.window)) // a recorder in a test has no deadlines; then there is none
}

// Read reads what there is; a body that stops or trickles is [ErrSlow].
func (p *pace) Read(b []byte) (int, error) {
	if p.slow {
		return 0, ErrSlow
	}
	now := time.Now()
	if now.Sub(p.last) > minRenew || p.got >= quota && now.Sub(p.begun) > minRenew {
		p.begin(now)
	}
	n, err := p.ReadCloser.Read(b)
	p.got += n
	p.last = time.Now()
	p.left -= p.last.Sub(now)
	p.fresh += n
	if p.guest != nil && p.fresh >= quota/10 { // a drop is nothing
		p.fresh = 0
		p.guest.hear()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && p.left < 0:
		p.slow, err = true, ErrSlow
	case err != nil: // all of it was read, and the server watches the connection while the answer is made
		_ = p.set(time.Time{})
		p.end()
	}
	return n, err
}

// end notes that the body is not waited for any more. What an early answer left of it is
// thrown away by the server, under the deadline that is set.
func (p *pace) end() {
	if p.guest != nil && !p.done {
		p.guest.crowd.works(p.guest)
	}
	p.done = true
}

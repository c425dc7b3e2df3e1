//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// The bounds that only a server keeps.
const (
	moveTime  = time.Hour
	stdinTime = 30 * time.Second

	// Names: read by a search, of one folder by a list, of a tree that is copied out or in.
	maxNames  = 400_000
	maxListed = 200_000
	maxCopied = trees.Entries

	// Bytes: of a file that is written, of a tree that is copied.
	maxWritten = 4 << 30
	maxTree    = 64 << 30

	// Depth of every walk, and bytes of every path.
	maxDepth = trees.Depth
	maxPath  = trees.Path
)

// boundError says which bound of a call was hit.
func boundError(most int64, what string) error {
	return fmt.Errorf("more than %d %s, which is the bound of this call: %w", most, what, backends.ErrTooLarge)
}

// within answers when call does, and at ctx's end or after a time at the latest: a file system
// need not answer at all. Such a call is left behind in its goroutine; drop, which may be nil,
// gets what it comes to.
func within[R any](ctx context.Context, op, p string, most time.Duration, call func(context.Context) (R, error), drop func(R)) (R, error) {
	type end struct {
		r   R
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := call(ctx)
		done <- end{r, err}
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case e := <-done:
		return e.r, slowly(ctx, op, p, e.err)
	case <-timer.C:
	case <-ctx.Done():
		timer.Reset(20 * time.Millisecond) // a call that watches its context is about to return
		select {
		case e := <-done:
			return e.r, slowly(ctx, op, p, e.err)
		case <-timer.C:
		}
	}
	if drop != nil {
		go func() {
			if e := <-done; e.err == nil {
				drop(e.r)
			}
		}()
	}
	var none R
	if why := context.Cause(ctx); why != nil {
		return none, slowly(ctx, op, p, fmt.Errorf("%s %s: %w", op, p, why))
	}
	return none, &fs.PathError{Op: op, Path: p, Err: errSlow(most)}
}

// slowly makes an error of the cause, where a call was ended because nothing moved in it.
func slowly(ctx context.Context, op, p string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if why := context.Cause(ctx); errors.Is(why, backends.ErrSlow) {
		return &fs.PathError{Op: op, Path: p, Err: why}
	}
	return err
}

// errSlow is the cause of a call's end at its deadline.
func errSlow(most time.Duration) error {
	return fmt.Errorf("no end after %v, which is the bound of this call: %w", most, backends.ErrSlow)
}

// pace ends a call that moves content when nothing has moved for stallTime.
type pace struct {
	timer *time.Timer
}

// paced gives a context that ends with ctx, or without progress. stop must be called.
func paced(ctx context.Context) (own context.Context, p pace, stop func()) {
	own, cancel := context.WithCancelCause(ctx)
	p = pace{time.AfterFunc(wire.StallTime, func() {
		cancel(fmt.Errorf("nothing has moved for %v, which is the bound of this call: %w", wire.StallTime, backends.ErrSlow))
	})}
	return own, p, func() { p.timer.Stop(); cancel(nil) }
}

// moved says that content has.
func (p pace) moved() { p.timer.Reset(wire.StallTime) }

// from counts what is read as progress, and at most most bytes of it.
func (p pace) from(r io.Reader, most int64) io.Reader { return &pacedReader{p, r, most, most} }

type pacedReader struct {
	pace
	r          io.Reader
	left, most int64
}

func (r *pacedReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		var one [1]byte
		if n, err := r.r.Read(one[:]); n == 0 && err != nil {
			return 0, err
		}
		return 0, boundError(r.most, "bytes")
	}
	n, err := r.r.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	if n > 0 {
		r.moved()
	}
	return n, err
}

// to counts what is written as progress.
func (p pace) to(w io.Writer) *pacedWriter {
	out := &pacedWriter{pace: p, w: w, free: make(chan struct{}, 1)}
	out.free <- struct{}{}
	return out
}

type pacedWriter struct {
	pace
	w    io.Writer
	free chan struct{} // holds one while no Write runs
}

// close keeps a call that was left behind from writing to what is its caller's again, unless it
// is that writer itself which does not come back.
func (w *pacedWriter) close() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-w.free:
	case <-timer.C:
	}
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	select {
	case <-w.free:
		defer func() { w.free <- struct{}{} }()
	default:
		return 0, io.ErrClosedPipe
	}
	n, err := w.w.Write(b)
	if n > 0 {
		w.moved()
	}
	return n, err
}

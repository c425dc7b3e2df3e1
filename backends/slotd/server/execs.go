//go:build linux

package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/wire"
)

// Bounds of finished commands that can still be asked for.
const (
	keptFor   = 60 * time.Second
	keptBytes = 16 << 20
	keptIDs   = 4096 // ids that are remembered as used, although the result is gone
)

var (
	errConflict = errors.New("this exec id belongs to another command")
	errGone     = errors.New("this exec id was used and its result is gone")
)

// execution is one command with an id.
type execution struct {
	eid    string
	body   [32]byte // digest of the request
	cancel context.CancelFunc
	task   atomic.Pointer[host.Task] // once it runs
	done   chan struct{}
	result backends.Result
	err    error
	ended  time.Time
}

func (e *execution) size() int {
	return len(e.result.Stdout) + len(e.result.Stderr) + len(e.result.Kept)
}

// execs remembers commands by id, so that none runs twice.
type execs struct {
	mu    sync.Mutex
	byID  map[string]*execution
	ended []*execution // oldest first
	bytes int
	used  map[string]bool
	order []string // of used
	run   sync.WaitGroup
}

func newExecs() *execs { return &execs{byID: map[string]*execution{}, used: map[string]bool{}} }

// begin returns the execution of an id, which it starts if the id is new. It does not end
// with ctx.
func (x *execs) begin(ctx context.Context, eid string, body []byte, run func(context.Context, *execution) (backends.Result, error)) (*execution, error) {
	digest := sha256.Sum256(body)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expire(time.Now())
	if e := x.byID[eid]; e != nil {
		if e.body != digest {
			return nil, fmt.Errorf("exec %q: %w", eid, errConflict)
		}
		return e, nil
	}
	if x.used[eid] {
		return nil, fmt.Errorf("exec %q: %w", eid, errGone)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &execution{eid: eid, body: digest, cancel: cancel, done: make(chan struct{})}
	x.byID[eid] = e
	x.run.Go(func() {
		e.result, e.err = run(ctx, e)
		cancel()
		x.end(e)
	})
	return e, nil
}

// end files a finished execution.
func (x *execs) end(e *execution) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e.ended = time.Now()
	x.ended = append(x.ended, e)
	x.bytes += e.size()
	x.expire(e.ended)
	close(e.done)
}

// expire forgets results that are old or too many, but the newest.
func (x *execs) expire(now time.Time) {
	for len(x.ended) > 1 && (x.bytes > keptBytes || len(x.ended) > keptIDs || now.Sub(x.ended[0].ended) > keptFor) {
		old := x.ended[0]
		x.ended = x.ended[1:]
		x.bytes -= old.size()
		delete(x.byID, old.eid)
		x.markUsed(old.eid)
	}
}

func (x *execs) markUsed(eid string) {
	if x.used[eid] {
		return
	}
	x.used[eid] = true
	x.order = append(x.order, eid)
	if len(x.order) > keptIDs {
		delete(x.used, x.order[0])
		x.order = x.order[1:]
	}
}

// find returns a known execution.
func (x *execs) find(eid string) (*execution, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.byID[eid]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("exec %q: %w", eid, errGone)
}

// stop cancels an execution; one that has not come yet will be refused.
func (x *execs) stop(eid string) *execution {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.byID[eid]
	if e == nil {
		x.markUsed(eid)
		return nil
	}
	e.cancel()
	return e
}

// forget drops the results of finished commands; their ids stay used.
func (x *execs) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.ended {
		delete(x.byID, e.eid)
		x.markUsed(e.eid)
	}
	x.ended, x.bytes = nil, 0
}

// running counts commands under way.
func (x *execs) running() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.byID) - len(x.ended)
}

// wait returns when no command is under way. The host must be closed.
func (x *execs) wait() { x.run.Wait() }

// exec runs a command, or joins the one that has the same id.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	body, c, _, err := readCommand(r)
	if err != nil {
		return err
	}
	e, err := s.execs.begin(r.Context(), r.PathValue("id"), body, func(ctx context.Context, e *execution) (backends.Result, error) {
		return s.h.Run(ctx, c, e.task.Store)
	})
	if err != nil {
		return err
	}
	return follow(w, r, e)
}

// adopt makes an execution of a command that runs already.
func (s *server) adopt(ctx context.Context, a wire.Adopted, t *host.Task) error {
	_, err := s.execs.begin(ctx, a.Exec, nil, func(ctx context.Context, e *execution) (backends.Result, error) {
		e.task.Store(t)
		return s.h.Finish(ctx, t, a.Left)
	})
	return err
}

// attach joins a command that was begun by exec, or adopted.
func (s *server) attach(w http.ResponseWriter, r *http.Request) error {
	e, err := s.execs.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	return follow(w, r, e)
}

// follow waits for a command and sends its result. The command goes on when the
// client leaves: it may come back.
func follow(w http.ResponseWriter, r *http.Request, e *execution) error {
	if beatUntil(w, r, e.done) == nil {
		sendResult(w, e.result, e.err)
	}
	return nil
}

// signal sends a signal to everything that a running command started.
func (s *server) signal(w http.ResponseWriter, r *http.Request) error {
	n, err := number(r, "signal")
	if err != nil {
		return err
	}
	if n < 1 || n > 64 {
		return fmt.Errorf("signal %d: have 1 to 64: %w", n, fs.ErrInvalid)
	}
	e, err := s.execs.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	if t := e.task.Load(); t != nil {
		t.Signal(syscall.Signal(n))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// cancel ends a command at once and answers when it is gone.
func (s *server) cancel(w http.ResponseWriter, r *http.Request) error {
	e := s.execs.stop(r.PathValue("id"))
	if e != nil {
		select {
		case <-e.done:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

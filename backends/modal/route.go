package modal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"hermes/backends/modal/wire"
)

// How often a call of a router is repeated, and from when on it is asked whether the
// sandbox is there at all.
const (
	routeRetries = 10
	routePause   = 10 * time.Millisecond
	askFrom      = 3
)

// route is the way to one sandbox's commands, a separate connection: each connection
// to slotd holds a stream of it, and servers limit those.
type route struct {
	api  *api
	task string
	conn *grpc.ClientConn
	over func(ctx context.Context) bool // the sandbox has ended

	mu      sync.Mutex
	jwt     string
	refresh time.Time // when the token is too old
}

// access is how long before its end a router's token is replaced.
const access = 30 * time.Second

// newRoute asks for the way to a task.
func newRoute(ctx context.Context, a *api, task string, over func(context.Context) bool) (*route, error) {
	r := &route{api: a, task: task, over: over}
	url, err := r.renew(ctx)
	if err != nil {
		return nil, err
	}
	address, secure, err := target(url, a.plain)
	if err != nil {
		return nil, fmt.Errorf("%w: the service names a router %q: %w", ErrInternal, url, err)
	}
	r.conn, err = dial(address, secure)
	if err != nil {
		return nil, fmt.Errorf("%w: the service names a router %q: %w", ErrInternal, url, err)
	}
	return r, nil
}

// renew fetches a token and tells where the router is.
func (r *route) renew(ctx context.Context) (url string, err error) {
	var way wire.Access
	if err := r.api.call(ctx, wire.TaskGetCommandRouterAccess, &wire.TaskRequest{TaskID: r.task}, &way); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jwt, r.refresh = way.JWT, time.Now().Add(plainToken)
	if end, ok := expiry(way.JWT); ok {
		r.refresh = end.Add(-access)
		if left := time.Until(end); left < 2*access {
			r.refresh = time.Now().Add(left / 2)
		}
	}
	return way.URL, nil
}

// signed is a context whose calls bear the token.
func (r *route) signed(ctx context.Context) (context.Context, error) {
	r.mu.Lock()
	jwt, old := r.jwt, time.Now().After(r.refresh)
	r.mu.Unlock()
	if old {
		if _, err := r.renew(ctx); err != nil {
			return nil, err
		}
		r.mu.Lock()
		jwt = r.jwt
		r.mu.Unlock()
	}
	return metadata.AppendToOutgoingContext(ctx, wire.MetaAuthorization, "Bearer "+jwt), nil
}

// fail hides the token in an error of the router.
func (r *route) fail(call string, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return failed(call, err, r.jwt)
}

// call asks the router and repeats what was not refused. Its error is a *callError, or
// ctx's.
func (r *route) call(ctx context.Context, call string, in, out any) error {
	t := r.tries(call)
	for {
		own, err := r.signed(ctx)
		if err == nil {
			if err = r.conn.Invoke(own, "/"+wire.Router+"/"+call, in, out); err == nil {
				return nil
			}
			err = r.fail(call, err)
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}

// tries counts the failures in a row of one call.
type tries struct {
	r       *route
	call    string
	n       int
	pause   time.Duration
	renewed bool
}

func (r *route) tries(call string) *tries { return &tries{r: r, call: call, pause: routePause} }

// well forgets failures: something came.
func (t *tries) well() {
	t.n = 0
	t.pause = routePause
	t.renewed = false
}

// again waits for the next try, or says why there is none.
func (t *tries) again(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", t.call, context.Cause(ctx))
	case codeOf(err) == codes.Unauthenticated && !t.renewed:
		t.renewed = true
		_, err = t.r.renew(ctx)
		return err
	case !passing(err) || t.n >= routeRetries:
		return err
	case t.n >= askFrom && t.r.over(ctx):
		return err
	}
	t.n++
	if err := sleep(ctx, t.pause); err != nil {
		return fmt.Errorf("%s: %w", t.call, err)
	}
	t.pause = min(2*t.pause, mostPause)
	return nil
}

// command is a command that the service runs in a sandbox, beside slotd's.
type command struct {
	r  *route
	id string
}

// start starts a command. Nothing is started twice: the id is ours.
func (r *route) start(ctx context.Context, id string, argv ...string) (*command, error) {
	err := r.call(ctx, wire.TaskExecStart, &wire.ExecStart{TaskID: r.task, ExecID: id, Args: argv, Stdout: wire.Pipe, Stderr: wire.Pipe}, &wire.Empty{})
	if err != nil {
		return nil, err
	}
	return &command{r, id}, nil
}

// read passes an output on until its end. A stream that breaks is opened again where it
// ended. An error of to is returned as it is.
func (c *command) read(ctx context.Context, descriptor int32, to io.Writer) error {
	t := c.r.tries(wire.TaskExecStdioRead)
	var off uint64
	for {
		err := c.follow(ctx, descriptor, &off, to, t)
		var w *writeError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &w):
			return w.error
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}

// writeError is an error of the reader's own writer.
type writeError struct{ error }

// follow reads one stream, which begins at *off.
func (c *command) follow(ctx context.Context, descriptor int32, off *uint64, to io.Writer, t *tries) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own, err := c.r.signed(ctx)
	if err != nil {
		return err
	}
	s, err := openStream(own, c.r.conn, "/"+wire.Router+"/"+wire.TaskExecStdioRead,
		&wire.StdioRead{TaskID: c.r.task, ExecID: c.id, Offset: *off, Descriptor: descriptor})
	if err != nil {
		return c.r.fail(wire.TaskExecStdioRead, err)
	}
	for {
		var chunk wire.StdioChunk
		err := s.RecvMsg(&chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.r.fail(wire.TaskExecStdioRead, err)
		}
		t.well()
		if _, err := to.Write(chunk.Data); err != nil {
			return &writeError{err}
		}
		*off += uint64(len(chunk.Data))
	}
}

// maxChunk bounds one message of input.
const maxChunk = 256 << 10

// write passes from on as the command's input, to its end or the command's.
func (c *command) write(ctx context.Context, from io.Reader) error {
	buffer := make([]byte, maxChunk)
	var off uint64
	for {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n > 0 || err != nil {
			in := &wire.StdinWrite{TaskID: c.r.task, ExecID: c.id, Offset: off, Data: buffer[:n], EOF: err != nil}
			if err := c.r.call(ctx, wire.TaskExecStdinWrite, in, &wire.Empty{}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
		off += uint64(n)
	}
}

// wait waits for the end of a command and gives its code, 128+n after a signal.
func (c *command) wait(ctx context.Context) (int, error) {
	for {
		own, cancel := context.WithTimeout(ctx, c.r.api.each)
		var end wire.ExecEnd
		err := c.r.call(own, wire.TaskExecWait, &wire.ExecWait{TaskID: c.r.task, ExecID: c.id}, &end)
		late := own.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case late:
			continue
		case err != nil:
			return 0, err
		case end.Signal != nil:
			return 128 + int(*end.Signal), nil
		case end.Code != nil:
			return int(*end.Code), nil
		}
		if err := sleep(ctx, mostPause); err != nil {
			return 0, err
		}
	}
}

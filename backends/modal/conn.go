package modal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"hermes/backends/modal/wire"
	slotd "hermes/backends/slotd/wire"
)

// maxSaid bounds what is kept of a program's complaint.
const maxSaid = 4000

// said is a writer that keeps the beginning of what it is given. It is safe for
// concurrent use.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p[:min(len(p), maxSaid-len(s.text))]...)
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(bytes.TrimSpace(s.text))
}

// unread is how long a command may run on whose input does not arrive.
const unread = 2 * time.Second

// run runs a command of the service to its end.
func (r *route) run(ctx context.Context, in io.Reader, argv ...string) (code int, out, complaint string, err error) {
	c, err := r.start(ctx, slotd.NewID()+slotd.NewID(), argv...)
	if err != nil {
		return 0, "", "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var o, e said
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	all.Go(func() {
		if err := c.write(ctx, in); err != nil { // a command need not read all, but then it ends by itself
			late := time.AfterFunc(unread, func() { cancel(fmt.Errorf("its input was not taken: %w", err)) })
			defer late.Stop()
			<-ctx.Done()
		}
	})
	var reads [2]error
	var read sync.WaitGroup
	read.Go(func() { reads[0] = c.read(ctx, wire.Stdout, &o) })
	read.Go(func() { reads[1] = c.read(ctx, wire.Stderr, &e) })
	read.Wait()
	if err := errors.Join(reads[:]...); err != nil {
		return 0, "", "", err
	}
	code, err = c.wait(ctx)
	return code, o.String(), e.String(), err
}

// lines joins a box's slotd with hermes: connections over commands of the service that
// dial slotd's socket. Close waits for all that it started.
type lines struct {
	route *route
	argv  []string
	life  context.Context
	end   context.CancelFunc
	most  chan struct{} // bounds the lines at once

	mu   sync.Mutex
	shut bool
	work sync.WaitGroup
}

// maxLines bounds the connections to one box: each is a process in it, and a stream for
// as long as it lives. Servers allow about a hundred of these at once, and a call that
// finds none free waits without an error.
const maxLines = 48

// hangUp bounds the end of a line, so that the program at its other end learns of it.
const hangUp = 10 * time.Second

func newLines(r *route, argv ...string) *lines {
	life, end := context.WithCancel(context.Background())
	return &lines{route: r, argv: argv, life: life, end: end, most: make(chan struct{}, maxLines)}
}

// Close cuts all lines.
func (l *lines) Close() {
	l.mu.Lock()
	l.shut = true
	end := l.end
	l.mu.Unlock()
	end()
	l.work.Wait()
}

// dial opens a line. The connection ends by being closed, or with the program.
func (l *lines) dial(ctx context.Context) (net.Conn, error) {
	select {
	case l.most <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to the box: wait for one of %d connections to end: %w", maxLines, context.Cause(ctx))
	}
	ours, theirs := net.Pipe()
	first := &greeting{to: ours, done: make(chan error, 1)}
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		<-l.most
		return nil, fmt.Errorf("connect to the box: %w", net.ErrClosed)
	}
	life := l.life
	l.work.Go(func() {
		defer func() { <-l.most }()
		l.join(ctx, life, ours, first)
	})
	l.mu.Unlock()
	select {
	case err := <-first.done:
		if err != nil {
			theirs.Close()
			return nil, fmt.Errorf("connect to the box: %w", err)
		}
		return theirs, nil
	case <-ctx.Done():
		theirs.Close()
		return nil, fmt.Errorf("connect to the box: %w", context.Cause(ctx))
	}
}

// join runs the program and joins its streams with one end of a pipe. opening is the
// context of whoever opens the line: with it ends the opening, not the line.
func (l *lines) join(opening, life context.Context, pipe net.Conn, first *greeting) {
	defer pipe.Close()
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	stop := context.AfterFunc(opening, func() {
		if !first.heard() {
			cancel()
		}
	})
	defer stop()
	c, err := l.route.start(ctx, slotd.NewID()+slotd.NewID(), l.argv...)
	if err != nil {
		first.fail(err)
		return
	}
	var wrote sync.WaitGroup
	wrote.Go(func() {
		if err := c.write(ctx, eofReader{pipe}); err != nil { // the caller's Close is the input's end, and no error
			first.fail(err)
			cancel() // no answer can come to what was not sent
		}
	})
	err = c.read(ctx, wire.Stdout, first)
	pipe.Close()
	grace := time.AfterFunc(hangUp, cancel)
	defer grace.Stop()
	if !first.heard() { // why it did not begin; one that did says no more
		var complaint said
		c.read(ctx, wire.Stderr, &complaint)
		first.fail(fmt.Errorf("%w: %s", cmp.Or(err, io.ErrUnexpectedEOF), &complaint))
	}
	wrote.Wait()
}

// eofReader takes the closing of a pipe for its end.
type eofReader struct{ net.Conn }

func (r eofReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// greeting passes on what follows the program's greeting.
type greeting struct {
	to   io.Writer
	done chan error

	mu   sync.Mutex
	head []byte
	ok   bool
	sent bool
}

func (g *greeting) heard() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ok
}

// fail reports an error to the dialler, unless it has a result already.
func (g *greeting) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell(err)
}

func (g *greeting) tell(err error) {
	if !g.sent {
		g.sent = true
		g.done <- err
	}
}

func (g *greeting) Write(p []byte) (int, error) {
	rest, err := g.take(p)
	if err == nil && len(rest) > 0 {
		_, err = g.to.Write(rest)
	}
	return len(p), err
}

// take gives what of p does not belong to the greeting.
func (g *greeting) take(p []byte) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ok {
		return p, nil
	}
	n := min(len(p), len(slotd.Hello)-len(g.head))
	g.head = append(g.head, p[:n]...)
	if !bytes.HasPrefix([]byte(slotd.Hello), g.head) {
		err := fmt.Errorf("the box says %.200q", append(g.head, p[n:]...))
		g.tell(err)
		return nil, err
	}
	g.ok = len(g.head) == len(slotd.Hello)
	if g.ok {
		g.tell(nil)
	}
	return p[n:], nil
}

package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// errResting is the end of a connection between two requests. It is not io.EOF, after which
// net/http would not send a POST again, although nothing of it was sent.
var errResting = errors.New("the server closed the connection, or spoke unasked")

// conn is a connection below net/http. [conn.begin] is called before each request on it, and
// [conn.rest] after each, but for those under TLS, which it only carries.
//
// net/http reads from an idle connection in the background, and closes it when a byte or
// its end comes. A request that is sent at the same moment may get that byte as its answer,
// so conn looks by itself before the first byte of a request is sent.
type conn struct {
	net.Conn
	raw syscall.RawConn

	mu      sync.Mutex
	changed sync.Cond // reading or closed became true
	reading bool      // a Read waits: all that came before was used
	closed  bool
	resting bool  // between two requests
	wrote   int64 // bytes of the present request
	plain   bool  // begin was called
	reused  bool  // the present request is not the first one
	broken  error // with which a write failed: nothing more is sent

	take func(fd uintptr) bool // reads into buf; a field, so that it is made once
	buf  []byte
	got  int
	end  error
}

func newConn(c net.Conn) (net.Conn, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		_ = c.Close() // it was closed already
		return nil, err
	}
	n := &conn{Conn: c, raw: raw}
	n.changed.L = &n.mu
	n.take = n.read
	return n, nil
}

// begin prepares c for a request. Where net/http was used on c before, it waits until all of
// the last answer was used up: until net/http reads on, or closes c for what it found.
func (c *conn) begin(reused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for reused && !c.reading && !c.closed {
		c.changed.Wait()
	}
	c.resting, c.plain = reused, true
	c.wrote, c.reused = 0, reused
}

// rest says that the present request is over. What comes until the next one is sent is unasked.
func (c *conn) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = true
}

// clean reports whether neither a byte nor the end has come. c.mu is locked, so that no Read
// takes the byte in between.
func (c *conn) clean() bool {
	if c.closed || c.broken != nil {
		return false
	}
	var b [1]byte
	var err error
	failed := c.raw.Control(func(fd uintptr) {
		_, err = syscall.Read(int(fd), b[:]) // never waits: sockets of package net are non-blocking
	})
	return failed == nil && errors.Is(err, syscall.EAGAIN)
}

// Read reads what came.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	c.buf, c.reading = p, true
	c.changed.Broadcast()
	c.mu.Unlock()
	err := c.raw.Read(c.take)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = nil
	if err != nil {
		c.reading = false
		return 0, err
	}
	return c.got, c.end
}

// read is one try. That nothing is there yet is not an end.
func (c *conn) read(fd uintptr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := syscall.Read(int(fd), c.buf)
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), c.buf)
	}
	if err == syscall.EAGAIN {
		return false
	}
	c.reading = false
	c.got, c.end = max(n, 0), nil
	switch {
	case c.resting: // what came is not used, nor logged by net/http
		c.got, c.end = 0, errResting
	case err != nil:
		c.end = &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: err}
	case n == 0:
		c.end = io.EOF
	}
	return true
}

// Write sends p. See [conn.sent] for its errors.
func (c *conn) Write(p []byte) (int, error) {
	drop, err := c.ready()
	if err != nil {
		return 0, err
	}
	if drop {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	sent, err := c.sent(int64(n), int64(len(p)), err)
	return int(sent), err
}

// ReadFrom sends all of r. A body of ours writes itself, without a copy through a buffer:
// net/http hides it in a LimitedReader, which would cost 32 KiB of garbage a request.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	l, ok := r.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	b, ok := l.R.(Body)
	if !ok || b.Len() != l.N {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	size := l.N
	l.N = 0
	drop, err := c.ready()
	if err != nil {
		return 0, err
	}
	n := size
	if !drop {
		n, err = b.WriteTo(c.Conn)
	}
	_, _ = io.Copy(io.Discard, b) // what was not sent; a body in memory does not fail
	return c.sent(n, size, err)
}

// ready looks at a connection before the first byte of a request is sent on it. One on which
// the server said something unasked, or which it closed, is refused: net/http then takes
// another one, since nothing was sent.
//
// It also reports whether the rest of a request is to be dropped, after a write that failed.
func (c *conn) ready() (drop bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting && !c.clean() {
		return false, errResting
	}
	c.resting = false
	return c.broken != nil, nil
}

// sent takes the result of a write of size bytes. An error is kept back where an answer may
// have come all the same: net/http would lose the answer for it. It is returned where nothing
// was sent on a connection that was used before: net/http then takes another one.
func (c *conn) sent(n, size int64, err error) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote += n
	if err == nil || !c.plain || c.closed || c.reused && c.wrote == 0 {
		return n, err
	}
	c.broken = err // a server that refuses a request need not read it to its end
	return size, nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}

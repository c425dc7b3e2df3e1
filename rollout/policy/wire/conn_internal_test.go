package wire

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
)

// socket is a connection whose reads wait in a synctest bubble: until more is closed, or the
// socket is. Its writes fail.
type socket struct {
	net.Conn
	fd, peer     int
	more, closed chan struct{}
}

var errWrite = errors.New("the server takes nothing more")

func (s *socket) Write([]byte) (int, error) { return 0, errWrite }
func (s *socket) RemoteAddr() net.Addr      { return nil }

func (s *socket) Close() error {
	close(s.closed)
	return nil
}

func (s *socket) SyscallConn() (syscall.RawConn, error) { return rawSocket{s}, nil }

type rawSocket struct{ *socket }

func (s rawSocket) Control(f func(uintptr)) error {
	f(uintptr(s.fd))
	return nil
}

func (s rawSocket) Write(func(uintptr) bool) error { return errWrite }

func (s rawSocket) Read(f func(uintptr) bool) error {
	if f(uintptr(s.fd)) {
		return nil
	}
	select {
	case <-s.more:
		f(uintptr(s.fd))
		return nil
	case <-s.closed:
		return net.ErrClosed
	}
}

// sockets returns a connection over a socket. It is called in a bubble.
func sockets(t *testing.T) (*conn, *socket) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
	})
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	s := &socket{fd: fds[0], peer: fds[1], more: make(chan struct{}), closed: make(chan struct{})}
	c, err := newConn(s)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*conn), s
}

// A request on a used connection waits until net/http reads on, or has closed it, and no longer.
func TestBeginWaitsForTheReader(t *testing.T) {
	for name, do := range map[string]func(*conn){
		"read":   func(c *conn) { _, _ = c.Read(make([]byte, 1)) },
		"closed": func(c *conn) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := sockets(t)
				c.begin(false) // does not wait
				begun := false
				go func() {
					c.begin(true)
					begun = true
				}()
				synctest.Wait()
				if begun {
					t.Error("the next request did not wait until the last answer was used up")
				}
				go do(c)
				synctest.Wait()
				if !begun {
					t.Error("the next request waits for ever")
				}
				if name == "read" {
					s.Close()
				}
			})
		})
	}
}

// What comes between two requests is no answer, in the background or at the moment of a write.
func TestUnaskedBytesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := sockets(t)
		b := make([]byte, 8)
		say := func() {
			if _, err := syscall.Write(s.peer, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		c.begin(false)
		if _, err := c.ready(); err != nil {
			t.Fatal(err)
		}
		say()
		if n, err := c.Read(b); n != 1 || err != nil {
			t.Errorf("an answer: %d bytes, %v", n, err)
		}
		c.rest()
		say()
		if n, err := c.Read(b); n != 0 || !errors.Is(err, errResting) {
			t.Errorf("a byte between two requests: %d bytes, %v", n, err)
		}
		go c.Read(b)
		synctest.Wait()
		c.begin(true)
		say()
		if n, err := c.Write([]byte("hello")); n != 0 || !errors.Is(err, errResting) {
			t.Errorf("a byte before a request: %d bytes were written, %v", n, err)
		}
		s.Close()
	})
}

// A connection on which a write failed carries the answer to that request and nothing more.
func TestBrokenConnectionsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := sockets(t)
		c.begin(false)
		for range 2 { // the second is dropped
			if n, err := c.Write([]byte("hello")); n != 5 || err != nil {
				t.Errorf("a write that fails: %d bytes, %v", n, err)
			}
		}
		c.rest()
		go c.Read(make([]byte, 8))
		synctest.Wait()
		c.begin(true)
		if n, err := c.Write([]byte("hello")); n != 0 || !errors.Is(err, errResting) {
			t.Errorf("the next request: %d bytes, %v", n, err)
		}
		s.Close()
	})
}

// A write that fails with nothing sent is reported where net/http can take another connection.
func TestFirstWriteOnUsedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := sockets(t)
		go c.Read(make([]byte, 8))
		synctest.Wait()
		c.begin(true)
		if n, err := c.Write([]byte("hello")); n != 0 || !errors.Is(err, errWrite) {
			t.Errorf("%d bytes, %v", n, err)
		}
		s.Close()
	})
}

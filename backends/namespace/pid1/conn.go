//go:build linux

package pid1

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrGone says that pid 1 does not answer any more.
var ErrGone = errors.New("the first process of the box is gone")

// ErrRefused says that a command could not be started as a plain one. Nothing of it ran.
var ErrRefused = errors.New("the command was not started")

// writeTime bounds a write to pid 1, which takes everything at once unless it is broken.
const writeTime = 10 * time.Second

// Conn is the host's end of pid 1. It is safe for concurrent use.
type Conn struct {
	Socket *net.UnixConn
	base   uint64 // where pid 1 has the data of its lists

	asking  sync.Mutex  // held by what waits for an answer that has no id
	answers chan Report // played, listed; closed when nothing more comes
	writing sync.Mutex

	mu      sync.Mutex
	serial  uint64
	started map[uint64]*Child
	gone    bool
	up      *Report // of the server that was executed in the place of pid 1
	read    chan struct{}
}

// Child is a command that was started. Ended receives one report at most; it is closed
// without one when pid 1 is gone, and not closed at all when a server took over.
type Child struct {
	ID    uint64
	PID   int // known after [Conn.Children]
	Ended chan Report
	list  *List
}

// newConn returns the host's end of a process whose lists have their data at an address.
func newConn(socket *net.UnixConn, base uint64) *Conn {
	c := &Conn{Socket: socket, base: base, answers: make(chan Report, 1), started: map[uint64]*Child{}, read: make(chan struct{})}
	go c.listen()
	return c
}

// listen hands out what pid 1 reports, until it is gone or a server is up.
func (c *Conn) listen() {
	defer close(c.read)
	defer close(c.answers)
	var r Report
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&r)), reportSize)
	for {
		if _, err := io.ReadFull(c.Socket, raw); err != nil {
			c.end()
			return
		}
		switch r.Kind {
		case played, listed:
			c.answers <- r
		case Up:
			up := r
			c.mu.Lock()
			c.up = &up
			c.mu.Unlock()
			return
		case refused, ended, running:
			c.tell(r)
		default: // nothing that pid 1 says
			c.end()
			return
		}
	}
}

// tell hands a report to the child that it is about.
func (c *Conn) tell(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.started[r.ID]
	switch {
	case x == nil: // refused, and now collected
	case r.Kind == running:
		x.PID = int(r.PID)
	default:
		delete(c.started, r.ID)
		x.Ended <- r
	}
}

// end tells all that wait that nothing more comes.
func (c *Conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, x := range c.started {
		close(x.Ended)
	}
	clear(c.started)
}

// send writes one request with its list.
func (c *Conn) send(kind uint32, id uint64, l *List, fds []int, more []byte) error {
	raw := make([]byte, unsafe.Sizeof(request{}), 4096)
	order := binary.NativeEndian
	order.PutUint32(raw, kind)
	order.PutUint64(raw[16:], id)
	if l != nil {
		order.PutUint32(raw[4:], uint32(len(l.ops)))
		order.PutUint32(raw[8:], uint32(len(l.data)))
		var err error
		raw, err = l.encode(raw, c.base)
		if err != nil {
			return err
		}
	}
	raw = append(raw, more...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.Socket.SetWriteDeadline(time.Now().Add(writeTime))
	n, _, err := c.Socket.WriteMsgUnix(raw, rights, nil)
	if err == nil && n < len(raw) {
		_, err = c.Socket.Write(raw[n:])
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// Play has a list played in pid 1 itself, with descriptors as its first slots, and waits
// for it, until ctx ends; then pid 1 is of no more use.
func (c *Conn) Play(ctx context.Context, l *List, fds ...int) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.send(playHere, 0, l, fds, nil); err != nil {
		return err
	}
	r, err := c.answer(ctx)
	if err != nil {
		return err
	}
	return l.err(r)
}

// answer waits for the answer to a request without an id.
func (c *Conn) answer(ctx context.Context) (Report, error) {
	select {
	case r, ok := <-c.answers:
		if !ok {
			return r, ErrGone
		}
		return r, nil
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
}

// Start has a list played in a child, which is to end with the execution of a program.
// The descriptors are not needed any more when it returns.
func (c *Conn) Start(l *List, fds ...int) (*Child, error) {
	x := &Child{Ended: make(chan Report, 1), list: l}
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return nil, ErrGone
	}
	c.serial++
	x.ID = c.serial
	c.started[x.ID] = x
	c.mu.Unlock()
	if err := c.send(playChild, x.ID, l, fds, nil); err != nil {
		c.mu.Lock()
		delete(c.started, x.ID)
		c.mu.Unlock()
		return nil, err
	}
	return x, nil
}

// Exit is how a child ended. The error wraps ErrRefused when it never became the program.
func (x *Child) Exit(r Report) (unix.WaitStatus, unix.Rusage, error) {
	if r.Kind == refused {
		err := x.list.err(r)
		if err == nil {
			err = errors.New("no program was found")
		}
		return 0, unix.Rusage{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	used := unix.Rusage{Utime: unix.NsecToTimeval(r.User * 1000), Stime: unix.NsecToTimeval(r.System * 1000), Maxrss: r.RSS}
	return unix.WaitStatus(r.Status), used, nil
}

// Children asks for the numbers of all children that have not ended.
func (c *Conn) Children(ctx context.Context) ([]*Child, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.send(listChildren, 0, nil, nil, nil); err != nil {
		return nil, err
	}
	if _, err := c.answer(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Child
	for _, x := range c.started {
		if x.PID != 0 {
			all = append(all, x)
		}
	}
	return all, nil
}

// Become has a list played that executes a server in the place of pid 1, tells it more,
// and waits until it says that it is up: with a text when it cannot serve. From then on
// the socket is the caller's, and no child is reported any more. Nothing may be started
// meanwhile.
func (c *Conn) Become(ctx context.Context, l *List, more []byte, fds ...int) (complaint string, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.send(playHere, 0, l, fds, more); err != nil {
		return "", err
	}
	select {
	case r, ok := <-c.answers:
		if ok {
			return "", l.err(r)
		}
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	<-c.read
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	if up == nil {
		return "", ErrGone
	}
	if up.Size > maxComplaint {
		return "", fmt.Errorf("a server that says %d bytes instead of that it is up: %w", up.Size, ErrGone)
	}
	text := make([]byte, up.Size)
	if _, err := io.ReadFull(c.Socket, text); err != nil {
		return "", fmt.Errorf("%w: %w", ErrGone, err)
	}
	return string(text), nil
}

// maxComplaint bounds what a server says that cannot serve.
const maxComplaint = 64 << 10

// IsUp is what a server says that was executed in the place of pid 1: that it serves, or
// why it cannot.
func IsUp(w io.Writer, complaint string) error {
	complaint = complaint[:min(len(complaint), maxComplaint)]
	r := Report{Kind: Up, Size: uint64(len(complaint))}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&r)), reportSize)
	_, err := w.Write(append(append([]byte{}, raw...), complaint...))
	return err
}

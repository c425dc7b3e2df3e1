package guard

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a listener that knows its connections and bounds them. When there are too many,
// one that asks for nothing is closed for the one that comes: the longest first, those of
// the busiest address before others. One whose request is being answered is never closed,
// and none that has just come or been heard of: who connects again and again would
// otherwise drive the others out. Then the one that comes waits.
type crowd struct {
	net.Listener
	most  int
	begun time.Time

	mu     sync.Mutex
	change sync.Cond // somebody left, or may be closed
	shut   bool
	all    int
	from   map[netip.Addr]int
	kinds  [3]list.List // of *guest, the longest first
}

// The kinds of guests that may be closed, in this order.
const (
	silent  = iota // have sent no request yet
	waiting        // keep a connection for the next request
	sending        // are being read a body of
	working        // are being answered, and are in no list
)

// patience is how long each kind may say nothing before it may be closed.
func patience() [3]time.Duration { return [3]time.Duration{time.Second / 4, time.Second, time.Second} }

// look is how often a connection that waits looks whether somebody may be closed.
const look = 20 * time.Millisecond

// guest is a connection.
type guest struct {
	net.Conn
	crowd *crowd
	from  netip.Addr
	kind  int
	place *list.Element // nil: in no list
	gone  bool
	heard atomic.Int64 // ns of the clock of the crowd when it last came or brought something
	due   time.Time    // until when a write may take
}

// guestKey is the key of the connection in a request's context.
type guestKey struct{}

func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

func newCrowd(l net.Listener, most int) *crowd {
	c := &crowd{Listener: l, most: most, begun: time.Now(), from: map[netip.Addr]int{}}
	c.change.L = &c.mu
	return c
}

// Accept implements net.Listener. It waits while there is no room and no connection may be closed.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{Conn: conn, crowd: c}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		g.from = a.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.all >= c.most && !c.shut {
		if v := c.victim(); v != nil {
			c.leave(v)
			v.Conn.Close()
			continue
		}
		again := time.AfterFunc(look, c.change.Broadcast)
		c.change.Wait()
		again.Stop()
	}
	if c.shut {
		conn.Close()
		return nil, net.ErrClosed
	}
	c.all++
	c.from[g.from]++
	c.move(g, silent)
	return g, nil
}

// Close implements net.Listener.
func (c *crowd) Close() error {
	c.mu.Lock()
	c.shut = true
	c.change.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}

// victim is the connection to close first; nil: none may be closed. The caller holds mu.
func (c *crowd) victim() *guest {
	share, now := c.all/len(c.from), time.Since(c.begun)
	for k, long := range patience() {
		for e := c.kinds[k].Front(); e != nil; e = e.Next() {
			g := e.Value.(*guest)
			quiet := now - time.Duration(g.heard.Load())
			if quiet >= long && c.from[g.from] >= share {
				return g
			}
			if quiet < long && k != sending {
				break // those behind it came later
			}
		}
	}
	return nil
}

// move puts a guest at the end of a list. The caller holds mu.
func (c *crowd) move(g *guest, kind int) {
	if g.gone {
		return
	}
	if g.place != nil {
		c.kinds[g.kind].Remove(g.place)
		g.place = nil
	}
	g.kind = kind
	g.hear()
	if kind != working {
		g.place = c.kinds[kind].PushBack(g)
		c.change.Signal()
	}
}

// leave forgets a guest. The caller holds mu.
func (c *crowd) leave(g *guest) {
	if g.gone {
		return
	}
	c.move(g, working)
	g.gone = true
	c.all--
	c.from[g.from]--
	if c.from[g.from] == 0 {
		delete(c.from, g.from)
	}
	c.change.Signal()
}

// hear notes that a guest has come or brought something.
func (g *guest) hear() { g.heard.Store(int64(time.Since(g.crowd.begun))) }

// watch gets each change of a connection's state from the server.
func (c *crowd) watch(conn net.Conn, s http.ConnState) {
	g, ok := conn.(*guest)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateActive:
		c.move(g, working)
	case http.StateIdle:
		c.move(g, waiting)
	case http.StateClosed, http.StateHijacked:
		c.leave(g)
	}
}

func (c *crowd) reads(g *guest) { c.put(g, sending) }
func (c *crowd) works(g *guest) { c.put(g, working) }

func (c *crowd) put(g *guest, kind int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(g, kind)
}

// stalled is how long a write may take: a client that reads nothing holds nothing.
const stalled = time.Minute

// Write gives each write its time.
func (g *guest) Write(b []byte) (int, error) {
	if now := time.Now(); g.due.Sub(now) < stalled*3/4 {
		g.due = now.Add(stalled)
		if err := g.Conn.SetWriteDeadline(g.due); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(b)
}

// SetWriteDeadline implements net.Conn, for handlers with their own time.
func (g *guest) SetWriteDeadline(t time.Time) error {
	g.due = t
	return g.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (g *guest) SetDeadline(t time.Time) error {
	g.due = t
	return g.Conn.SetDeadline(t)
}

// CloseWrite lets the server end an answer before it closes the connection: what a client
// goes on sending would otherwise take the answer away from it.
func (g *guest) CloseWrite() error {
	if c, ok := g.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

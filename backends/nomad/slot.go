package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/wire"
)

// state is what a slot is good for.
type state int

const (
	starting state = iota // placed; its slotd does not answer yet
	idle                  // leased by us and free
	busy                  // a box
	wiping                // being reset or given up
	leaving               // to be stopped
)

// slot is one allocation. Fields below links are guarded by the group.
type slot struct {
	g     *group
	alloc string
	node  string
	index int
	admin *client.Client
	links *links
	over  chan struct{} // closed when why is set

	missed atomic.Int32 // renewals without an answer
	ran    atomic.Bool  // a command ran since the slot was last clean

	state  state
	since  time.Time // of being idle
	lease  wire.Lease
	doomed error // what is wrong with its node
	found  error // what lostCause found
	why    error // why it is gone
}

func newSlot(g *group, a *api.AllocationListStub) *slot {
	s := &slot{g: g, alloc: a.ID, node: a.NodeID, index: indexOf(a.Name), over: make(chan struct{})}
	s.links = &links{open: map[net.Conn]bool{}, dial: g.b.at.Dial}
	s.admin = client.New(s.links.connect, client.Options{Token: g.token, ID: a.ID})
	return s
}

// indexOf reads the number in an allocation's name, job.group[3].
func indexOf(name string) int {
	_, rest, _ := strings.Cut(name, "[")
	n, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil {
		return 0
	}
	return n
}

// gone says why the slot is gone, or nil.
func (s *slot) gone() error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.why
}

// bring waits until the slot answers, leases it and puts it into use. The port is probed
// from the placement on: Nomad's own status lags.
func (s *slot) bring(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.g.b.conf.Start)
	defer cancel()
	var last error
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if s.gone() != nil {
			return
		}
		last = s.answer(ctx)
		if last == nil {
			s.g.ready(s)
			return
		}
		if errors.Is(last, client.ErrRetired) {
			s.g.retire(s, last)
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			continue
		case <-s.over:
		case <-ctx.Done():
			if s.g.b.life.Err() == nil {
				err := fmt.Errorf("%w: %w: slot %s did not answer within %v: %w", backends.ErrUnavailable, ErrStart, s.alloc, s.g.b.conf.Start, last)
				s.g.mu.Lock()
				s.g.trouble(err)
				s.g.mu.Unlock()
				s.g.retire(s, err)
			}
		}
		t.Stop()
		return
	}
}

// answer finds the slot's port and asks for the lease.
func (s *slot) answer(ctx context.Context) error {
	if !s.links.known() {
		a, _, err := s.g.b.web.Allocations().Info(s.alloc, s.g.b.query(ctx))
		if err != nil {
			return answered("look at slot "+s.alloc, err)
		}
		address, err := addressOf(a)
		if err != nil {
			return err
		}
		s.links.set(address)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	l, err := s.admin.Lease(ctx, wire.LeaseRequest{Key: s.alloc, Owner: s.g.b.owner.String(), TTL: s.g.b.conf.TTL})
	if err != nil {
		return err
	}
	s.ran.Store(false)
	s.g.mu.Lock()
	s.lease = l
	s.g.mu.Unlock()
	return nil
}

// addressOf is where an allocation's slotd listens.
func addressOf(a *api.Allocation) (string, error) {
	if r := a.AllocatedResources; r != nil {
		for _, p := range r.Shared.Ports {
			if p.Label == portLabel {
				return net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value)), nil
			}
		}
	}
	return "", fmt.Errorf("allocation %s has no port %q", a.ID, portLabel)
}

// touch renews the lease.
func (s *slot) touch(ctx context.Context) error {
	s.g.mu.Lock()
	id := s.lease.ID
	s.g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := s.admin.Renew(ctx, id, s.g.b.conf.TTL)
	return err
}

// release takes a slot back from its box: it is reset and leased again, or replaced.
func (s *slot) release(ctx context.Context) {
	s.g.mu.Lock()
	s.state = wiping
	id := s.lease.ID
	doomed := s.doomed
	why := s.why
	s.g.mu.Unlock()
	defer s.g.nudge()
	level := s.g.b.conf.Reset
	switch {
	case why != nil:
		return
	case doomed != nil:
		s.g.retire(s, doomed)
		return
	case level == resetReplace:
		s.g.retire(s, errors.New("it was used"))
		return
	}
	done, err := s.admin.GiveBack(ctx, id, backends.Level(level))
	if err == nil && len(done.Left) > 0 {
		err = fmt.Errorf("it is not clean: %s", strings.Join(done.Left, "; "))
	}
	if err != nil {
		s.g.retire(s, err)
		return
	}
	s.g.work.Go(func() { s.bring(s.g.b.life) })
}

// errRemoved is what becomes of the slots of a job that is removed.
var errRemoved = fmt.Errorf("%w: %w: its job was removed", backends.ErrLost, ErrStopped)

// The times of an inquiry into the end of a slot.
const (
	causeTime = 5 * time.Second  // in which the cluster notices the end of a server
	newsTime  = 15 * time.Second // in which the agent of a node tells what it saw while the servers were away: it tries again every 5 to 10 s
)

// errNobody says that the cause of a slot's end could not be learned.
var errNobody = fmt.Errorf("%w: no Nomad server answered that could tell why it ended", backends.ErrLost)

// lostCause says why the slot does not answer; nil means that nothing is known. What was found
// counts for every later call.
func (s *slot) lostCause(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.g.b.conf.Away+2*newsTime)
	defer cancel()
	defer context.AfterFunc(s.g.b.life, cancel)()
	s.g.mu.Lock()
	why := cmp.Or(s.why, s.found)
	s.g.mu.Unlock()
	if why != nil {
		return why
	}
	why = s.inquire(ctx)
	if ctx.Err() == nil {
		s.g.mu.Lock()
		s.found = why
		s.g.mu.Unlock()
	}
	return why
}

// inquire asks the cluster. Servers that are away are waited for: the agent of the node has
// seen how the slot ended, and tells them when they are back.
func (s *slot) inquire(ctx context.Context) error {
	began := time.Now()
	for {
		if why := s.gone(); why != nil {
			return why
		}
		if s.answers(ctx) {
			return nil // only the connection broke, or the lease is over
		}
		a, err := s.look(ctx)
		switch {
		case missing(err):
			return errRemoved
		case err != nil && passing(err) && ctx.Err() == nil:
			s.g.unheard()
			if time.Since(began) > s.g.b.conf.Away {
				return errNobody
			}
		case err == nil:
			if why, known := s.judge(ctx, a); known {
				return why
			}
		}
		if time.Since(began) > causeTime && time.Since(s.g.lastUnheard()) > newsTime || !pause(ctx, 50*time.Millisecond) {
			return s.g.b.node(ctx, s.node)
		}
	}
}

// answers reports whether the slot's server does. One on a node that is gone may not even
// refuse.
func (s *slot) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, causeTime)
	defer cancel()
	_, err := s.admin.Health(ctx)
	return err == nil
}

// look asks for the slot's allocation.
func (s *slot) look(ctx context.Context) (*api.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, causeTime)
	defer cancel()
	a, _, err := s.g.b.web.Allocations().Info(s.alloc, s.g.b.query(ctx))
	return a, err
}

// judge reads whose doing the end of the slot was, once that can be known.
func (s *slot) judge(ctx context.Context, a *api.Allocation) (why error, known bool) {
	// Once the group has judged, it gives the slot up, and the servers say of one that
	// had failed before that it was stopped.
	if why := s.gone(); why != nil {
		return why, true
	}
	if why := outside(a.DesiredStatus, a.ClientStatus, a.DesiredDescription); why != nil {
		return s.g.b.moved(ctx, a.NodeID, a.DesiredDescription, why), true
	}
	if a.ClientStatus != api.AllocClientStatusFailed && a.ClientStatus != api.AllocClientStatusComplete {
		return nil, false
	}
	if why := s.g.b.node(ctx, a.NodeID); why != nil {
		return why, true
	}
	return ended(s.g.b.conf.Driver, s.ran.Load(), a.TaskStates), true
}

// links are the connections to one slot.
type links struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	address string
	shut    bool
	open    map[net.Conn]bool
}

func (l *links) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address != ""
}

func (l *links) set(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = address
}

// errSevered is what a connection to a slot that is gone ends with.
var errSevered = errors.New("the slot is gone")

func (l *links) connect(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	address, shut := l.address, l.shut
	l.mu.Unlock()
	if shut {
		return nil, errSevered
	}
	c, err := l.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		c.Close()
		return nil, errSevered
	}
	t := &link{Conn: c, of: l}
	l.open[t] = true
	return t, nil
}

// sever cuts all connections; with shut there will be no others.
func (l *links) sever(shut bool) {
	l.mu.Lock()
	l.shut = l.shut || shut
	all := make([]net.Conn, 0, len(l.open))
	for c := range l.open {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// link is a connection that leaves the list when it is closed.
type link struct {
	net.Conn
	of *links
}

func (c *link) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

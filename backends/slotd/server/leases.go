//go:build linux

package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// Bounds of leases.
const (
	minTTL    = time.Second
	maxTTL    = 24 * time.Hour
	wipeTime  = 2 * time.Minute
	maxName   = 256
	keptEnded = 64 // answers of leases that are over
)

// lease is one lease as the table keeps it. Times are monotonic: a suspended machine or a
// clock that is set does not end a lease early.
type lease struct {
	id, key, owner, token string
	digest                [32]byte
	ttl                   time.Duration
	ends                  time.Time
	over                  chan struct{} // closed when the box is clean or dirty
	done                  backends.Cleaned
	err                   error
}

// leaseTable gives out the one slot of a server.
type leaseTable struct {
	s        *server
	stop     func() // ends the server once it is drained
	mu       sync.Mutex
	now      *lease // in force
	wipes    *lease // being wiped
	ended    []*lease
	dirty    bool
	draining bool // no more leases
	closed   bool
	timer    *time.Timer
	work     sync.WaitGroup
}

func newLeaseTable(s *server, stop func()) *leaseTable {
	d := &leaseTable{s: s, stop: stop}
	d.timer = time.AfterFunc(maxTTL, d.expire)
	return d
}

// close ends the table; the server ends its host itself.
func (d *leaseTable) close() {
	d.mu.Lock()
	d.closed = true
	d.timer.Stop()
	d.mu.Unlock()
	d.work.Wait()
}

// state tells whether the slot can be leased, or never again.
func (d *leaseTable) state() (free, dirty bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now == nil && d.wipes == nil && !d.dirty && !d.draining, d.dirty
}

// admit checks the token of a call about the box and renews the lease.
func (d *leaseTable) admit(sum [32]byte) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil && subtle.ConstantTimeCompare(sum[:], d.now.digest[:]) == 1 {
		d.extend(d.now, d.now.ttl)
		return 0
	}
	for _, l := range d.past() {
		if l != nil && subtle.ConstantTimeCompare(sum[:], l.digest[:]) == 1 {
			return http.StatusGone
		}
	}
	return http.StatusUnauthorized
}

// past lists the leases that are over, as far as they are remembered. The table is locked.
func (d *leaseTable) past() []*lease { return append(slices.Clone(d.ended), d.wipes) }

// extend moves the end of a lease. The table is locked.
func (d *leaseTable) extend(l *lease, ttl time.Duration) {
	l.ttl, l.ends = ttl, time.Now().Add(ttl)
	d.timer.Reset(ttl)
}

// expire ends a lease that was not renewed.
func (d *leaseTable) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil || d.closed {
		return
	}
	if left := time.Until(d.now.ends); left > 0 {
		d.timer.Reset(left)
		return
	}
	d.end(d.now, backends.ResetFull)
}

// end takes a lease back: from now on its token is void, and the box is wiped. The table
// is locked.
func (d *leaseTable) end(l *lease, level backends.Level) {
	d.now, d.wipes = nil, l
	d.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wipeTime)
		defer cancel()
		done, err := d.s.clean(ctx, level)
		d.mu.Lock()
		defer d.mu.Unlock()
		l.done, l.err = done, err
		d.dirty = d.dirty || err != nil || len(done.Left) > 0
		d.wipes = nil
		d.ended = append(d.ended, l)
		if len(d.ended) > keptEnded {
			d.ended = d.ended[1:]
		}
		close(l.over)
		if d.draining {
			d.stop()
		}
	})
}

// take gives the slot to whoever asks first: 201, or 200 for the lease that the same
// owner has already; 409 when it is taken, 503 when it is dirty or drained.
func (d *leaseTable) take(w http.ResponseWriter, r *http.Request) error {
	var q wire.LeaseRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, wire.MaxRequest)).Decode(&q); err != nil {
		return fmt.Errorf("read lease: %w", err)
	}
	if q.Key == "" || q.Owner == "" || len(q.Key) > maxName || len(q.Owner) > maxName {
		return fmt.Errorf("lease for key %.40q of owner %.40q: both need 1 to %d bytes", q.Key, q.Owner, maxName)
	}
	if err := checkTTL(q.TTL); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.now != nil && d.now.key == q.Key && d.now.owner == q.Owner:
		d.extend(d.now, q.TTL)
		return sendJSON(w, d.answer(d.now))
	case d.dirty || d.draining || d.closed:
		http.Error(w, "this slot is dirty or drained", http.StatusServiceUnavailable)
		return nil
	case d.now != nil || d.wipes != nil:
		http.Error(w, "this slot is taken", http.StatusConflict)
		return nil
	}
	l := &lease{id: wire.NewID(), key: q.Key, owner: q.Owner, token: rand.Text() + rand.Text(), over: make(chan struct{})}
	l.digest = sha256.Sum256([]byte(l.token))
	d.now = l
	d.extend(l, q.TTL)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(d.answer(l))
	return nil
}

func (d *leaseTable) answer(l *lease) wire.Lease {
	return wire.Lease{ID: l.id, Token: l.token, Dir: d.s.h.Dir(), TTL: l.ttl, Left: time.Until(l.ends)}
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("lease for %v: want %v to %v", ttl, minTTL, maxTTL)
	}
	return nil
}

// renew makes a lease last longer; one that is over answers 410.
func (d *leaseTable) renew(w http.ResponseWriter, r *http.Request) error {
	ns, err := number(r, "ttl_ns")
	if err == nil {
		err = checkTTL(time.Duration(ns))
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil || d.now.id != r.PathValue("id") {
		http.Error(w, "this lease is over", http.StatusGone)
		return nil
	}
	d.extend(d.now, time.Duration(ns))
	return sendJSON(w, d.answer(d.now))
}

// giveBack ends a lease and answers when the box is wiped; asked again, it answers the same.
func (d *leaseTable) giveBack(w http.ResponseWriter, r *http.Request) error {
	level := backends.Level(r.URL.Query().Get("reset"))
	if level != backends.ResetFiles && level != backends.ResetFull {
		return fmt.Errorf("reset %q: have %s, %s", level, backends.ResetFiles, backends.ResetFull)
	}
	l := d.byID(r.PathValue("id"), level)
	if l == nil {
		http.Error(w, "no such lease", http.StatusGone)
		return nil
	}
	select {
	case <-l.over:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	if l.err != nil {
		return l.err
	}
	return sendJSON(w, l.done)
}

// byID finds a lease and ends it when it is in force.
func (d *leaseTable) byID(id string, level backends.Level) *lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil && d.now.id == id {
		l := d.now
		d.end(l, level)
		return l
	}
	for _, l := range d.past() {
		if l != nil && l.id == id {
			return l
		}
	}
	return nil
}

// drain gives out no more leases; the server ends with the one in force.
func (d *leaseTable) drain(w http.ResponseWriter, r *http.Request) error {
	d.mu.Lock()
	d.draining = true
	idle := d.now == nil && d.wipes == nil
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	if idle {
		http.NewResponseController(w).Flush()
		d.stop()
	}
	return nil
}

package slotd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"hermes/backends"
)

// Bounds of leases.
const (
	minTTL    = time.Second
	maxTTL    = 24 * time.Hour
	wipeTime  = 2 * time.Minute
	maxName   = 256
	keptEnded = 64 // answers of leases that are over
)

// LeaseRequest asks for the box. Key and Owner together name the lease: asking again
// gives the same one.
type LeaseRequest struct {
	Key   string        `json:"key"`
	Owner string        `json:"owner"`
	TTL   time.Duration `json:"ttl_ns"`
}

// Lease is the right to use the box until it is given back or not renewed in time. Calls
// about the box need its token; each of them renews it.
type Lease struct {
	ID    string        `json:"id"`
	Token string        `json:"token"`
	Dir   string        `json:"dir"`
	TTL   time.Duration `json:"ttl_ns"`
	Left  time.Duration `json:"left_ns"`
}

// lease is one lease as the desk keeps it. Times are monotonic: a suspended machine or a
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

// desk gives out the one slot of a server.
type desk struct {
	s     *server
	stop  func() // ends the server once it is drained
	mu    sync.Mutex
	now   *lease // in force
	wipes *lease // being wiped
	ended []*lease
	dirty bool
	last  bool // no more leases
	shut  bool
	timer *time.Timer
	work  sync.WaitGroup
}

func newDesk(s *server, stop func()) *desk {
	d := &desk{s: s, stop: stop}
	d.timer = time.AfterFunc(maxTTL, d.expire)
	return d
}

// close ends the desk; the server ends its host itself.
func (d *desk) close() {
	d.mu.Lock()
	d.shut = true
	d.timer.Stop()
	d.mu.Unlock()
	d.work.Wait()
}

// state tells whether the slot can be leased, or never again.
func (d *desk) state() (free, dirty bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now == nil && d.wipes == nil && !d.dirty && !d.last, d.dirty
}

// admit checks the token of a call about the box and renews the lease.
func (d *desk) admit(sum [32]byte) int {
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

// past lists the leases that are over, as far as they are remembered. The desk is locked.
func (d *desk) past() []*lease { return append(slices.Clone(d.ended), d.wipes) }

// extend moves the end of a lease. The desk is locked.
func (d *desk) extend(l *lease, ttl time.Duration) {
	l.ttl, l.ends = ttl, time.Now().Add(ttl)
	d.timer.Reset(ttl)
}

// expire ends a lease that was not renewed.
func (d *desk) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil || d.shut {
		return
	}
	if left := time.Until(d.now.ends); left > 0 {
		d.timer.Reset(left)
		return
	}
	d.end(d.now, backends.ResetFull)
}

// end takes a lease back: from now on its token is void, and the box is wiped. The desk
// is locked.
func (d *desk) end(l *lease, level backends.Level) {
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
		if d.ended = append(d.ended, l); len(d.ended) > keptEnded {
			d.ended = d.ended[1:]
		}
		close(l.over)
		if d.last {
			d.stop()
		}
	})
}

// take gives the slot to whoever asks first: 201, or 200 for the lease that the same
// owner has already; 409 when it is taken, 503 when it is dirty or drained.
func (d *desk) take(w http.ResponseWriter, r *http.Request) error {
	var q LeaseRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&q); err != nil {
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
	case d.dirty || d.last || d.shut:
		http.Error(w, "this slot is dirty or drained", http.StatusServiceUnavailable)
		return nil
	case d.now != nil || d.wipes != nil:
		http.Error(w, "this slot is taken", http.StatusConflict)
		return nil
	}
	l := &lease{id: NewID(), key: q.Key, owner: q.Owner, token: rand.Text() + rand.Text(), over: make(chan struct{})}
	l.digest = sha256.Sum256([]byte(l.token))
	d.now = l
	d.extend(l, q.TTL)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(d.answer(l))
	return nil
}

func (d *desk) answer(l *lease) Lease {
	return Lease{ID: l.id, Token: l.token, Dir: d.s.h.Dir(), TTL: l.ttl, Left: time.Until(l.ends)}
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("lease for %v: want %v to %v", ttl, minTTL, maxTTL)
	}
	return nil
}

// renew makes a lease last longer; one that is over answers 410.
func (d *desk) renew(w http.ResponseWriter, r *http.Request) error {
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
func (d *desk) giveBack(w http.ResponseWriter, r *http.Request) error {
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
func (d *desk) byID(id string, level backends.Level) *lease {
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
func (d *desk) drain(w http.ResponseWriter, r *http.Request) error {
	d.mu.Lock()
	d.last = true
	idle := d.now == nil && d.wipes == nil
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	if idle {
		http.NewResponseController(w).Flush()
		d.stop()
	}
	return nil
}

// ErrTaken says that a slot is leased to somebody else; ErrRetired that it is dirty or
// drained and will not be leased again.
var (
	ErrTaken   = errors.New("slot is taken")
	ErrRetired = errors.New("slot is not leased any more")
)

// Lease asks for the box; c has the administrator's token. The calls of another client,
// with the lease's token, are then about the box.
func (c *Client) Lease(ctx context.Context, q LeaseRequest) (l Lease, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return l, err
	}
	err = c.admin(ctx, "lease", "POST", "leases", nil, body, &l)
	return l, err
}

// Renew makes a lease last ttl from now.
func (c *Client) Renew(ctx context.Context, id string, ttl time.Duration) (l Lease, err error) {
	err = c.admin(ctx, "renew lease "+id, "POST", "leases/"+id+"/renew", url.Values{"ttl_ns": {strconv.FormatInt(int64(ttl), 10)}}, nil, &l)
	return l, err
}

// GiveBack ends a lease and waits until the box is wiped.
func (c *Client) GiveBack(ctx context.Context, id string, level backends.Level) (done backends.Cleaned, err error) {
	err = c.admin(ctx, "give back lease "+id, "DELETE", "leases/"+id, url.Values{"reset": {string(level)}}, nil, &done)
	return done, err
}

// Drain ends the server as soon as no lease is in force.
func (c *Client) Drain(ctx context.Context) error {
	return c.admin(ctx, "drain", "POST", "drain", nil, nil, nil)
}

// admin sends a call of the administrator's and reads its answer, if it has one.
func (c *Client) admin(ctx context.Context, what, method, path string, q url.Values, body []byte, into any) error {
	var refused error
	err := c.call(ctx, what, method, path, q, bytes.NewReader(body), "", func(r *http.Response) error {
		if into == nil {
			return nil
		}
		return readJSON(into)(r)
	})
	var s *statusError
	if errors.As(err, &s) {
		switch s.code {
		case http.StatusConflict:
			refused = ErrTaken
		case http.StatusServiceUnavailable:
			refused = ErrRetired
		}
	}
	if refused != nil {
		return fmt.Errorf("%s: %w", what, refused)
	}
	return err
}

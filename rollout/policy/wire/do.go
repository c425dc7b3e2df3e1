package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Request is what an exchange sends.
type Request struct {
	Path   string      // behind the base URL: /chat/completions; "//metrics" is from the server's root
	Body   func() Body // the ready body, fresh for each attempt; nil: none
	Stream bool        // the answer comes in pieces: the clocks of a stream count
	Digest [32]byte    // of what identifies the request, see [Digest]
	Key    string      // of the rollout, for cassettes
	Route  *Route
	Tape   Tape         // nil: none
	Notes  func(string) // called at each move to another replica; may be nil
	Admit  func() error // asked before each attempt that costs; may be nil
	Taped  bool         // only what is stored: else ErrNotTaped
}

// Exchange is one attempt: it sends one request through d and reads the whole answer. An
// *Error that it returns counts as such; every other error is a broken connection.
type Exchange func(ctx context.Context, d Doer) error

// Answer is what came back.
type Answer struct {
	Raw      []byte // as the server sent it: a JSON document or an event stream
	Replayed bool   // from a tape or a cassette: nothing was bought
}

// ErrNotTaped says that the answer is not stored, for a request with Taped.
var ErrNotTaped = errors.New("the answer is not stored")

// Do runs x until an attempt succeeds, the retries are used up, or ctx ends. It returns
// an *Error, the error of ctx, or one of the tape.
func (c *Client) Do(ctx context.Context, r *Request, x Exchange) (*Answer, error) {
	if raw, ok, err := c.stored(r); err != nil {
		return nil, err
	} else if ok {
		if err := x(ctx, replay(raw)); err != nil {
			return nil, fmt.Errorf("stored answer of request %x: %w", r.Digest[:8], err)
		}
		return &Answer{Raw: raw, Replayed: true}, nil
	}
	if r.Taped {
		return nil, ErrNotTaped
	}
	if r.Route == nil {
		r.Route = NewRoute(r.Key)
	}
	a, err := c.buy(ctx, r, x)
	if err != nil {
		return nil, err
	}
	c.stats.bought.Add(1)
	if r.Tape != nil {
		if err := r.Tape.Store(r.Digest, a.Raw); err != nil {
			return nil, fmt.Errorf("store the answer of request %x: %w", r.Digest[:8], err)
		}
	}
	if c.opt.Record != nil {
		if err := c.opt.Record.add(r, a.Raw); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// stored looks for an answer that was bought before.
func (c *Client) stored(r *Request) ([]byte, bool, error) {
	if p, ok := r.Tape.(Peeker); ok && r.Taped && !p.Peek(r.Digest) {
		return nil, false, nil
	}
	if r.Tape != nil {
		if raw, ok := r.Tape.Lookup(r.Digest); ok {
			return raw, true, nil
		}
	}
	if c.opt.Replay == nil {
		return nil, false, nil
	}
	raw, ok := c.opt.Replay.take(r.Digest, r.Key)
	if !ok && r.Taped {
		return nil, false, nil
	}
	if !ok {
		return nil, false, &Error{Kind: Offline, Err: fmt.Errorf("%s has no request with digest %x (rollout %s): the conversation differs from the recorded one", c.opt.Replay.name, r.Digest[:8], r.Key)}
	}
	if r.Tape != nil { // a run on a cassette is resumed like any other
		if err := r.Tape.Store(r.Digest, raw); err != nil {
			return nil, false, fmt.Errorf("store the answer of request %x: %w", r.Digest[:8], err)
		}
	}
	return raw, true, nil
}

// buy is the loop of attempts.
func (c *Client) buy(ctx context.Context, r *Request, x Exchange) (*Answer, error) {
	at, why := c.fleet.pick(r.Route, nil)
	c.moved(r, why, nil)
	var tries tries
	for {
		a, failed, rested, err := c.once(ctx, r, at, x)
		if err != nil {
			return nil, err
		}
		tries.all++
		if failed == nil {
			at.worked()
			return a, nil
		}
		wait, again := c.next(&tries, failed, rested, at)
		if !again {
			return nil, failed
		}
		c.stats.retries.Add(1)
		level := slog.LevelWarn // an outage must be seen; who writes the log counts lines that repeat
		if failed.Kind == Limited {
			level = slog.LevelDebug
		}
		c.opt.Log.Log(ctx, level, "model request failed and is sent again", "err", failed, "replica", at.base, "attempt", tries.all, "wait", wait)
		at = c.move(r, at, failed, &tries)
		if tries.moved {
			wait, tries.moved = 0, false
		}
		rest := at.rest(failed, time.Now().Add(wait))
		err = sleep(ctx, wait)
		if at.rested(rest); err != nil {
			return nil, err
		}
	}
}

type tries struct {
	all, errors, limited, keys, here int
	moved                            bool
	doubled                          int // waits that grew, because no other request had an answer
	own                              int // failures while others had answers
	news                             int // answers of the replica at the last failure
}

// once is one attempt at one replica, with a place of its limiter.
func (c *Client) once(ctx context.Context, r *Request, at *replica, x Exchange) (_ *Answer, failed *Error, rested bool, _ error) {
	place, err := at.limit.acquire(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if r.Admit != nil {
		if err := r.Admit(); err != nil {
			at.limit.release(place, &Error{}, 0)
			return nil, nil, false, err
		}
	}
	c.stats.attempts.Add(1)
	actx, a := c.attempt(ctx, r, at)
	if err = x(actx, a); err == nil {
		err = c.leaks.raw(a.raw)
	}
	if err != nil {
		failed = c.failure(actx, at, err)
		failed.Status = max(failed.Status, a.status)
	}
	a.end()
	if failed != nil && ctx.Err() != nil {
		at.limit.release(place, &Error{}, 0)
		return nil, nil, false, ctx.Err()
	}
	if failed != nil && failed.keyed {
		rested = c.keys.tired(a.keyed, time.Now(), keyPause(failed))
	}
	if rested {
		at.limit.release(place, &Error{}, 0) // the key's fault, not the server's
		return nil, failed, true, nil
	}
	at.limit.release(place, a.overdue(failed), a.late())
	if failed != nil {
		return nil, failed, false, nil
	}
	return &Answer{Raw: a.raw}, nil, false, nil
}

// keyPause is how long a refused key rests.
func keyPause(e *Error) time.Duration {
	switch {
	case e.After > 0:
		return e.After
	case e.Kind == Auth:
		return 5 * time.Minute
	}
	return time.Minute
}

// next decides whether to try again, and after which wait. The wait doubles while no
// request gets an answer from the replica. Where other requests get answers, a longer wait
// does not help: it grows only as far as the share of failures asks for. A request that
// failed more often than chance explains is given up.
func (c *Client) next(t *tries, e *Error, rested bool, at *replica) (time.Duration, bool) {
	if rested && t.keys < len(c.keys.list) {
		t.keys++
		return 0, true
	}
	if !e.Retryable() {
		return 0, false
	}
	n, most := &t.errors, c.opt.Retries
	if e.Kind == Limited {
		n, most = &t.limited, c.opt.LimitedRetries
	}
	b := at.failing(t, e)
	*n++
	if *n > most || e.After > c.opt.MaxAfter || t.own > c.opt.Retries && b.hopeless(t.own) {
		return 0, false
	}
	wait := c.opt.Backoff << min(t.doubled, 16)
	if b.own {
		wait = min(c.opt.Backoff<<min(*n-1, 16), time.Duration(float64(c.opt.Backoff)*b.pace()))
	}
	if !b.own || t.all == 1 { // the first says little
		t.doubled++
	}
	return max(c.jitter(min(c.opt.MaxBackoff, wait)), e.After), true
}

// move leaves a replica that failed: at once when no process listens there, else after the
// second failure in a row.
func (c *Client) move(r *Request, at *replica, e *Error, t *tries) *replica {
	if e.Kind != Unavailable {
		next, why := c.fleet.pick(r.Route, nil) // the list may have changed
		c.moved(r, why, e)
		return next
	}
	t.here++
	if !e.refused && t.here < 2 {
		return at
	}
	at.failed(time.Now())
	next, why := c.fleet.pick(r.Route, at)
	c.moved(r, why, e)
	if next != at {
		t.here, t.moved = 0, next.up(time.Now()) // where all are down, it waits as before
	}
	return next
}

func (c *Client) moved(r *Request, why string, e *Error) {
	if why == "" {
		return
	}
	if e != nil {
		why += ": " + e.Err.Error()
	}
	if r.Notes != nil {
		r.Notes(why)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get fetches a path of the first replica: lists of models, properties of a server. It
// is tried once and takes no place of a limiter. The clocks of a stream count: such an answer
// comes at once.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	if c.opt.Replay != nil {
		return nil, &Error{Kind: Offline, Err: fmt.Errorf("GET %s: a cassette holds no such answers", path)}
	}
	return c.get(ctx, c.fleet.replicas()[0], path)
}

func (c *Client) get(ctx context.Context, at *replica, path string) ([]byte, error) {
	actx, a := c.attempt(ctx, &Request{Path: path, Stream: true}, at)
	defer a.end()
	req, err := http.NewRequestWithContext(actx, http.MethodGet, "http://model", nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	resp, err := a.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = cmp.Or(errors.Join(err, resp.Body.Close()), c.leaks.raw(a.raw))
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.failure(actx, at, err)
	}
	return a.raw, nil
}

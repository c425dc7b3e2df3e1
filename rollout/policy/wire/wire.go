// Package wire carries every request to a model server: it chooses the replica, waits
// for a place, sends, watches the clock, tries again, and says whose fault a failure is.
//
// The one idea: [Client.Do] runs an [Exchange] until one attempt succeeds. An exchange
// sends through the [Doer] that it is given and reads the answer; the doer puts in the
// address, the key and the ready body, and keeps the raw answer. An answer that was
// bought is stored on the request's [Tape] before it is used; one that is on the tape,
// or in a cassette, is replayed through the same exchange and never bought again.
//
// A [Client] is safe for concurrent use. Time is the time package's, so that tests run
// in a synctest bubble; randomness comes from a seed.
package wire

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hermes/internal/address"
)

// Options tune a [Client]. The zero value of each field is usable, but for Bases.
type Options struct {
	Bases          []string // base URLs, or one "@file" with one a line, read again when it changes
	Keys           []string // a pool of API keys; none: no Authorization is sent
	KeyNames       []string // of the variables that the keys are from, for messages; may be nil
	Header         http.Header
	Concurrency    int               // requests in flight at one replica; 0 means 64
	Retries        int               // after 5xx, resets, stalls, unreadable answers; 0 means 4, negative none
	LimitedRetries int               // after 429 or overload; 0 means 20, negative none
	Backoff        time.Duration     // before the first retry; doubles; 0 means 1 s
	MaxBackoff     time.Duration     // 0 means 60 s
	MaxAfter       time.Duration     // the longest Retry-After that is waited for; 0 means 120 s
	Connect        time.Duration     // until the connection is made; 0 means 10 s
	FirstByte      time.Duration     // until a stream begins; 0 means 5 min, negative never. A plain answer may take Whole
	Idle           time.Duration     // between two pieces of an answer; 0 means 120 s, negative never
	Whole          time.Duration     // one attempt; 0 means 30 min, negative never
	MaxAnswer      int64             // bytes; 0 means 64 MiB
	Seed           uint64            // of the jitter
	Transport      http.RoundTripper // nil: net/http's, with Connect
	Record         *Recorder         // every (digest, answer) goes to a cassette
	Replay         *Cassette         // answers come from a cassette only; nothing is sent
	Log            *slog.Logger
}

// Client sends requests. Close it when the last one has returned.
type Client struct {
	opt   Options
	fleet *fleet
	keys  *keys
	hide  *address.Hider         // the keys, which a server may send back
	leaks *Leaks                 // finds them in answers
	json  map[signed]http.Header // of a request for a whole document; never changed
	send  http.RoundTripper
	stats stats

	mu   sync.Mutex // guards rand
	rand *rand.Rand

	stop context.CancelFunc
	done sync.WaitGroup
}

// signed is what a request's header depends on.
type signed struct{ key, scheme string }

type stats struct{ attempts, retries, bought atomic.Int64 }

// Stats counts what a client did since it was made.
type Stats struct{ Attempts, Retries, Bought int64 }

// New returns a client; it reads the file of an "@file" and sends nothing.
func New(o Options) (*Client, error) {
	for _, n := range []int64{int64(o.Concurrency), o.MaxAnswer, int64(o.Backoff)} {
		if n < 0 {
			return nil, fmt.Errorf("model client: %d is negative", n)
		}
	}
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	o.Retries, o.LimitedRetries = cmp.Or(o.Retries, 4), cmp.Or(o.LimitedRetries, 20)
	o.Backoff, o.MaxBackoff = cmp.Or(o.Backoff, time.Second), cmp.Or(o.MaxBackoff, time.Minute)
	o.MaxAfter, o.Connect = cmp.Or(o.MaxAfter, 2*time.Minute), cmp.Or(o.Connect, 10*time.Second)
	o.FirstByte, o.Idle = cmp.Or(o.FirstByte, 5*time.Minute), cmp.Or(o.Idle, 2*time.Minute)
	o.Whole, o.MaxAnswer = cmp.Or(o.Whole, 30*time.Minute), cmp.Or(o.MaxAnswer, 64<<20)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{opt: o, keys: newKeys(o.Keys), hide: address.NewHider(o.Keys...), leaks: newLeaks(o.Keys, o.KeyNames), send: o.Transport, rand: rand.New(rand.NewPCG(o.Seed, 0x77697265))}
	if c.send == nil {
		c.send = newTransport(o)
	}
	c.json = map[signed]http.Header{}
	for _, key := range append([]string{""}, o.Keys...) {
		for _, scheme := range []string{"http", "https"} {
			h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
			s := signed{key, scheme}
			c.sign(h, s)
			c.json[s] = h
		}
	}
	var err error
	if len(o.Bases) == 0 && o.Replay != nil {
		o.Bases = []string{"http://cassette.invalid"}
	}
	c.fleet, err = newFleet(o.Bases, o.Concurrency, time.Now)
	if err != nil {
		return nil, err
	}
	c.stop = func() {}
	return c, nil
}

// Close ends what runs in the background and drops idle connections.
func (c *Client) Close() error {
	c.stop()
	c.done.Wait()
	for _, r := range c.fleet.replicas() {
		r.limit.stop()
	}
	if t, ok := c.send.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// Leaks finds the keys of this client in answers; nil when it has none to be found.
func (c *Client) Leaks() *Leaks { return c.leaks }

// Bases are the present base URLs, without passwords.
func (c *Client) Bases() []string {
	var list []string
	for _, r := range c.fleet.replicas() {
		list = append(list, r.base)
	}
	return list
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	s := &c.stats
	return Stats{s.attempts.Load(), s.retries.Load(), s.bought.Load()}
}

// SetConcurrency changes how many requests may be in flight at one replica: the ceiling
// below which each replica's own limit is found. n is at least 1.
func (c *Client) SetConcurrency(n int) {
	c.fleet.mu.Lock()
	c.fleet.ceiling = n
	c.fleet.mu.Unlock()
	for _, r := range c.fleet.replicas() {
		r.limit.raise(n)
	}
}

// jitter returns a duration between half of d and d.
func (c *Client) jitter(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return d/2 + time.Duration(c.rand.Int64N(int64(d/2)+1))
}

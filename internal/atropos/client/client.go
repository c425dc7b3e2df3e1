// Package client speaks Atropos' trajectory API as an environment does: it registers,
// asks for the state of the queue and posts groups.
//
// What is safe to repeat is repeated. A post is not: Atropos' API has no key by which the
// server could recognize a second one. So a post whose fate is unknown is reported as such
// ([Error.Fate]). hermes' own server knows posts by their keys ([Client.Keyed]). A [Client]
// is safe for concurrent use.
package client

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hermes/internal/address"
)

// Options tune a [Client]. The zero value is usable.
type Options struct {
	Token   string        // sent as a bearer token; empty: none
	Tries   int           // of what may be repeated; 0: 3
	Pause   time.Duration // before the second try, doubled each time; 0: 500 ms
	Timeout time.Duration // of one request; 0: 5 minutes, since a post may be hundreds of MB
}

// Client asks one server.
type Client struct {
	base string
	near bool // the server is on this machine
	o    Options
	http *http.Client
	post *http.Client // opens a connection for each request: a kept one may be closed under a post

	keyed atomic.Bool // the server reported that it knows posts by their keys
}

// Headers of hermes' own server: the name of a post, what the server offers beyond the
// protocol, and that it has carried out a post of this name before.
const (
	keyHeader     = "Idempotency-Key"
	featureHeader = "Hermes-Features"
	againHeader   = "Idempotent-Replayed"
)

// Keyed reports whether the server that answered last knows posts by their keys: one whose
// fate is unknown may be sent again under its key.
func (c *Client) Keyed() bool { return c.keyed.Load() }

// longestPause bounds the pause between two tries.
const longestPause = 10 * time.Second

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// gzipFrom is the size from which bodies are compressed, as Atropos' clients do. Those that
// stay on this machine are not: it would cost both ends more than it saves.
const gzipFrom = 1024

// local reports whether a host is this machine by its name.
func local(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// New checks the address, such as http://127.0.0.1:8000 or http://host:8000/t/TOKEN.
func New(base string, o Options) (*Client, error) {
	if err := address.CheckURL("--api", base); err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("trajectory server %q: want an address such as http://127.0.0.1:8000", base)
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("trajectory server %q: an address has no fragment", base)
	}
	o.Tries = cmp.Or(o.Tries, 3)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	kept := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 3 * time.Second} // uvicorn closes after 5
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimRight(base, "/"), near: local(u.Hostname()), o: o, http: &http.Client{Transport: kept, CheckRedirect: stay},
		post: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, WriteBufferSize: 64 << 10}, CheckRedirect: stay}}, nil
}

// Fate is what became of a request that failed.
type Fate int

// The fates. Unsent never reached the server, Refused was answered and not taken, Unknown may
// have been taken or not.
const (
	Unsent Fate = iota
	Refused
	Unknown
)

// Error is a request that failed.
type Error struct {
	Op     string // GET /info
	Status int    // 0: no answer
	Detail string // what the server said
	Fate   Fate
	After  time.Duration // the server asks to wait that long; 0: it does not
	Err    error
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Op + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: the server answered %d %s", e.Op, e.Status, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Busy reports whether the server asks to come again later.
func (e *Error) Busy() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// FateOf is the fate of a failed request; that of an error of another kind is Unknown.
func FateOf(err error) Fate {
	var e *Error
	if errors.As(err, &e) {
		return e.Fate
	}
	return Unknown
}

// once sends one request and decodes the answer into out.
func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) error {
	return c.named(ctx, "", method, path, body, out)
}

// named is once for a post with a key.
func (c *Client) named(ctx context.Context, key, method, path string, body []byte, out any) error {
	op := method + " " + path
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, fmt.Errorf("no answer within %v", c.o.Timeout))
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, sent, err := c.request(ctx, method, path, body)
	if err != nil {
		return &Error{Op: op, Err: err}
	}
	defer func() { // a server may answer before it has read everything: what it did not take is not sent any more
		cancel()
		sent.Wait()
	}()
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	asker := c.http
	if method == http.MethodPost {
		asker = c.post
	}
	resp, err := asker.Do(req)
	if err != nil {
		e := &Error{Op: op, Err: c.hide(err), Fate: Unknown}
		var dial *net.OpError
		if !connected.Load() || errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
			e.Fate = Unsent
		}
		if cause := context.Cause(ctx); cause != nil {
			e.Err = cause
		}
		return e
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK { // else it may be a proxy that speaks
		c.keyed.Store(resp.Header.Get(featureHeader) == keyHeader)
	}
	if p, ok := out.(*Posted); ok {
		p.Again = resp.Header.Get(againHeader) == "true"
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &Error{Op: op, Err: err, Fate: Unknown}
	}
	if resp.StatusCode != http.StatusOK {
		return &Error{Op: op, Status: resp.StatusCode, Detail: said(raw), Fate: fate(resp.StatusCode), After: after(resp.Header)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return &Error{Op: op, Fate: Unknown, Err: fmt.Errorf("the answer is no trajectory server's: %w (%s)", err, said(raw))}
	}
	return nil
}

// request builds a request; big bodies are compressed where that makes them smaller. Once
// it was sent and sent.Wait has returned, body is not read any more.
func (c *Client) request(ctx context.Context, method, path string, body []byte) (req *http.Request, sent *sync.WaitGroup, err error) {
	packed := false
	if len(body) >= gzipFrom && !c.near {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			return nil, nil, err
		}
		if _, err := w.Write(body); err != nil {
			return nil, nil, err
		}
		if err := w.Close(); err != nil {
			return nil, nil, err
		}
		packed = b.Len() < len(body)
		if packed {
			body = b.Bytes()
		}
	}
	req, err = http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, nil, c.hide(err)
	}
	sent = &sync.WaitGroup{}
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) {
			sent.Add(1)
			return &lent{Reader: bytes.NewReader(body), back: sync.OnceFunc(sent.Done)}, nil
		}
		req.Body, err = req.GetBody()
		if err != nil {
			return nil, nil, err
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if packed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if c.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	return req, sent, nil
}

// lent is a body that tells when the transport lets go of it: that may be after the answer
// has come.
type lent struct {
	*bytes.Reader
	back func()
}

// Close gives the body back.
func (l *lent) Close() error {
	l.back()
	return nil
}

// hide keeps the address, which may hold a token, out of errors.
func (c *Client) hide(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// fate of an answer that is not 200. A server that could not be asked by the one in front
// of it may have been asked all the same.
func fate(status int) Fate {
	if status == http.StatusBadGateway || status == http.StatusGatewayTimeout {
		return Unknown
	}
	return Refused
}

func after(h http.Header) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, time.Minute)
}

// said is what a server said, short enough for a message.
func said(raw []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(raw), "\uFFFD"))
	var e struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &e) == nil && len(e.Detail) > 0 {
		text = string(e.Detail)
	}
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "…"
	}
	return text
}

// ask repeats a request that may be repeated.
func (c *Client) ask(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		body, err = json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	for try := 1; ; try++ {
		err := c.once(ctx, method, path, body, out)
		var e *Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &e) || final(method, e) || try >= c.o.Tries {
			return err
		}
		if !c.Wait(ctx, try, e.After) {
			return err
		}
	}
}

// final reports whether a request must not be repeated.
func final(method string, e *Error) bool {
	return e.Status >= 400 && e.Status < 500 && !e.Busy() || method == http.MethodPost && e.Fate == Unknown
}

// Close lets go of kept connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Wait pauses before try number try+1: at least after, else a random time that grows with
// the tries. It reports false when ctx ended first.
func (c *Client) Wait(ctx context.Context, try int, after time.Duration) bool {
	d := min(c.o.Pause<<min(try-1, 16), longestPause)
	d = max(after, d/2+rand.N(d/2+1))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Doer sends the HTTP request of one attempt.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
	// Whole sends the request's body, JSON, and returns the whole answer.
	Whole(ctx context.Context) ([]byte, error)
	Raw() []byte // what was read of the answer so far
}

// The causes with which an attempt is ended by the clock.
var (
	errFirstByte = errors.New("no answer began in time")
	errIdle      = errors.New("the answer stalled")
	errWhole     = errors.New("the answer took too long")
	errTooLarge  = errors.New("the answer is too large")
)

// attempt is the Doer of one try: it puts in address, key and body, watches the clock
// and keeps the raw answer.
type attempt struct {
	c      *Client
	r      *Request
	at     *replica
	key    string
	keyed  int // its place among the keys
	cancel context.CancelCauseFunc
	raw    []byte
	status int
	whole  *time.Timer // ends the attempt whatever comes; nil: nothing does
	timer  *time.Timer
	began  time.Time
	wait   time.Duration         // until the answer began; 0: it did not
	armed  atomic.Pointer[error] // the cause with which the timer ends the attempt
}

// attempt begins a try at one replica, whose context it returns. attempt.end ends it.
func (c *Client) attempt(ctx context.Context, r *Request, at *replica) (context.Context, *attempt) {
	now := time.Now()
	key, n := c.keys.take(now)
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attempt{c: c, r: r, at: at, key: key, keyed: n, cancel: cancel, began: now}
	if c.opt.Whole > 0 {
		a.whole = time.AfterFunc(c.opt.Whole, func() { cancel(errWhole) })
	}
	return ctx, a
}

// Do sends req, whose address and body are replaced by those of the request.
func (a *attempt) Do(req *http.Request) (*http.Response, error) {
	req.Host = ""
	delete(req.Header, "Authorization") // a library's, for a key that it does not have
	a.c.sign(req.Header, signed{a.key, a.at.url.Scheme})
	return a.do(req)
}

// Whole sends the request's body, JSON, and returns the whole answer.
func (a *attempt) Whole(ctx context.Context) ([]byte, error) {
	resp, err := a.do((&http.Request{Method: http.MethodPost, Header: a.c.json[signed{a.key, a.at.url.Scheme}]}).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body) // the tap keeps what is read
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	return a.raw, nil
}

func (a *attempt) do(req *http.Request) (*http.Response, error) {
	a.raw = a.raw[:0]
	req.URL = join(a.at.url, a.r.Path)
	if a.r.Body == nil {
		req.Body = nil
		req.GetBody = nil
		req.ContentLength = 0
	} else {
		b := a.r.Body()
		req.Body, req.ContentLength = b, b.Len()
		req.GetBody = func() (io.ReadCloser, error) { return a.r.Body(), nil }
	}
	if a.r.Stream {
		a.arm(a.c.opt.FirstByte, &errFirstByte)
	}
	resp, err := a.c.send.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a.status = resp.StatusCode
	if resp.StatusCode == http.StatusOK {
		// A plain answer is bounded by the whole time alone; a stream still waits for its
		// first byte, because servers send the header before the request leaves their queue.
		if n := resp.ContentLength; n > 0 && n <= a.c.opt.MaxAnswer && cap(a.raw) < int(n) {
			a.raw = make([]byte, 0, n+1) // and one byte to see its end
		}
		resp.Body = &tap{ReadCloser: resp.Body, a: a}
		return resp, nil
	}
	defer resp.Body.Close()
	a.arm(a.c.opt.Idle, &errIdle)
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a body that breaks off still has a status
	raw = []byte(a.c.hide.Text(string(raw)))                // before it is cut anywhere
	e := Classify(resp.StatusCode, resp.Header, raw, time.Now())
	if loc := resp.Header.Get("Location"); loc != "" {
		e.Err = fmt.Errorf("%w (it redirects: correct the base URL)", e.Err)
	}
	return nil, e
}

// Raw is what was read of the answer so far.
func (a *attempt) Raw() []byte { return a.raw }

// sign puts our name, the headers of the options and a key into h. Answers over plain HTTP
// come from nearby: to pack them costs more than it saves.
func (c *Client) sign(h http.Header, s signed) {
	h["User-Agent"] = []string{"hermes"}
	if s.scheme == "http" {
		h["Accept-Encoding"] = []string{"identity"}
	}
	maps.Copy(h, c.opt.Header)
	if s.key != "" {
		h["Authorization"] = []string{"Bearer " + s.key}
	}
}

// arm lets the clock end the attempt after d with the cause; negative: never.
func (a *attempt) arm(d time.Duration, cause *error) {
	a.armed.Store(cause)
	switch {
	case d < 0:
		if a.timer != nil {
			a.timer.Stop()
		}
	case a.timer == nil:
		a.timer = time.AfterFunc(d, func() { a.cancel(*a.armed.Load()) })
	default:
		a.timer.Reset(d)
	}
}

func (a *attempt) end() {
	for _, t := range []*time.Timer{a.whole, a.timer} {
		if t != nil {
			t.Stop()
		}
	}
	a.cancel(nil)
}

// late is how long the answer took to begin, as a share of the time after which it
// would have been given up; 0: it did not begin, or nothing would give it up.
func (a *attempt) late() float64 {
	allowed := a.c.opt.Whole
	if a.r.Stream && a.c.opt.FirstByte > 0 {
		allowed = a.c.opt.FirstByte
	}
	if allowed <= 0 {
		return 0
	}
	return float64(a.wait) / float64(allowed)
}

// overdue marks the failure of an answer that did not begin in time: the server has
// more than it can do, even if it does not say so.
func (a *attempt) overdue(e *Error) *Error {
	if e != nil && a.wait == 0 && (errors.Is(e, errFirstByte) || errors.Is(e, errWhole)) && !a.at.limit.isWatched() {
		e.overload = true
	}
	return e
}

// join puts a path behind a base URL; the query of the path is kept.
func join(base *url.URL, path string) *url.URL {
	u := *base
	if strings.HasPrefix(path, "//") { // beside the OpenAI routes: //metrics, //generate
		u.Path, path = strings.TrimSuffix(u.Path, "/v1"), path[1:]
	}
	path, u.RawQuery, _ = strings.Cut(path, "?")
	u.Path += path
	u.RawPath = ""
	return &u
}

// tap keeps what is read of an answer, and bounds it.
type tap struct {
	io.ReadCloser
	a *attempt
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.a.raw = append(t.a.raw, p[:n]...)
	return t.a.took(n, err)
}

// WriteTo reads to the end, into what is kept; w gets it from there.
func (t *tap) WriteTo(w io.Writer) (total int64, err error) {
	a := t.a
	for {
		a.raw = slices.Grow(a.raw, 1)
		free := a.raw[len(a.raw):cap(a.raw)]
		n, err := t.ReadCloser.Read(free)
		a.raw = a.raw[:len(a.raw)+n]
		n, err = a.took(n, err)
		total += int64(n)
		if _, werr := w.Write(free[:n]); werr != nil {
			return total, werr
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// took judges a piece of n bytes that was added to what is kept.
func (a *attempt) took(n int, err error) (int, error) {
	if a.wait == 0 && n > 0 {
		a.wait = max(1, time.Since(a.began))
	}
	if int64(len(a.raw)) > a.c.opt.MaxAnswer {
		a.raw = a.raw[:len(a.raw)-n]
		return 0, errTooLarge
	}
	if a.r.Stream && err == nil && n > 0 {
		a.arm(a.c.opt.Idle, &errIdle)
	}
	return n, err
}

// replay answers an exchange from stored bytes.
type replay []byte

// Whole returns the stored answer.
func (r replay) Whole(context.Context) ([]byte, error) { return r, nil }

// Raw is the stored answer.
func (r replay) Raw() []byte { return r }

// Do returns the stored answer.
func (r replay) Do(req *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(r)),
		ContentLength: int64(len(r)), Request: req,
	}, nil
}

// failure is what ended an attempt, with none of our keys in its text.
func (c *Client) failure(ctx context.Context, at *replica, err error) *Error {
	e := failure(ctx, at, err, c.opt.MaxAnswer)
	e.Err = c.hide.Error(e.Err)
	return e
}

// failure makes an *Error of whatever ended an attempt. ctx is the attempt's.
func failure(ctx context.Context, at *replica, err error, limit int64) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{e.Kind, e.After, e.Status, fmt.Errorf("%s: %w", at.base, e.Err), e.overload, e.refused, e.keyed}
	}
	if cause := context.Cause(ctx); cause != nil {
		for _, c := range []error{errFirstByte, errIdle, errWhole} {
			if errors.Is(cause, c) {
				err = c
			}
		}
	}
	if errors.Is(err, errTooLarge) {
		return &Error{Kind: Malformed, Err: fmt.Errorf("%s: %w: more than %d bytes", at.base, err, limit)}
	}
	var op *net.OpError
	refused := errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // its text repeats the address, with a password
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = errWhole
	}
	return &Error{Kind: Unavailable, Err: fmt.Errorf("%s: %w", at.base, err), refused: refused}
}

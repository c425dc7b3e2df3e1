package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Doer sends one HTTP request.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
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
	cancel context.CancelCauseFunc
	raw    []byte
	status int
	timer  *time.Timer
	armed  atomic.Pointer[error] // the cause with which the timer ends the attempt
}

// Do sends req, whose address and body are replaced by those of the request.
func (a *attempt) Do(req *http.Request) (*http.Response, error) {
	a.raw = a.raw[:0]
	req.URL = join(a.at.url, a.r.Path)
	req.Host = ""
	if err := a.fill(req); err != nil {
		return nil, err
	}
	if a.r.Stream {
		a.arm(a.c.opt.FirstByte, &errFirstByte)
	}
	resp, err := a.c.send.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	a.arm(a.c.opt.Idle, &errIdle)
	a.status = resp.StatusCode
	if resp.StatusCode == http.StatusOK {
		if !a.r.Stream {
			a.arm(-1, &errIdle) // the whole time bounds a plain answer, which some servers begin early
		}
		if n := resp.ContentLength; n > 0 && n <= a.c.opt.MaxAnswer && cap(a.raw) < int(n) {
			a.raw = make([]byte, 0, n)
		}
		resp.Body = &tap{ReadCloser: resp.Body, a: a}
		return resp, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a body that breaks off still has a status
	e := Classify(resp.StatusCode, resp.Header, raw, time.Now())
	if loc := resp.Header.Get("Location"); loc != "" {
		e.Err = fmt.Errorf("%w (it redirects: correct the base URL)", e.Err)
	}
	return nil, e
}

func (a *attempt) fill(req *http.Request) error {
	for k, v := range a.c.opt.Header {
		req.Header[k] = v
	}
	if a.key != "" {
		req.Header["Authorization"] = []string{"Bearer " + a.key}
	} else {
		delete(req.Header, "Authorization")
		if u := a.at.url.User; u != nil {
			pass, _ := u.Password()
			req.SetBasicAuth(u.Username(), pass)
		}
	}
	if a.r.Body == nil {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
		return nil
	}
	r, n := a.r.Body()
	req.Body, req.ContentLength = io.NopCloser(r), n
	req.GetBody = func() (io.ReadCloser, error) {
		r, _ := a.r.Body()
		return io.NopCloser(r), nil
	}
	return nil
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
	if a.timer != nil {
		a.timer.Stop()
	}
	a.cancel(nil)
}

// join puts a path behind a base URL; the query of the path is kept.
func join(base *url.URL, path string) *url.URL {
	u := *base
	u.User = nil
	if strings.HasPrefix(path, "//") { // from the root of the server: //metrics
		u.Path, path = "", path[1:]
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
	a := t.a
	if int64(len(a.raw)+n) > a.c.opt.MaxAnswer {
		return 0, errTooLarge
	}
	a.raw = append(a.raw, p[:n]...)
	if a.r.Stream && err == nil && n > 0 {
		a.arm(a.c.opt.Idle, &errIdle)
	}
	return n, err
}

// replay answers an exchange from stored bytes.
type replay []byte

func (r replay) Do(req *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(r)),
		ContentLength: int64(len(r)), Request: req,
	}, nil
}

// failure makes an *Error of whatever ended an attempt. ctx is the attempt's.
func failure(ctx context.Context, at *replica, err error, limit int64) *Error {
	var e *Error
	if errors.As(err, &e) {
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
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its text repeats the address, with a password
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = errWhole
	}
	return &Error{Kind: Unavailable, Err: fmt.Errorf("%s: %w", at.base, err), refused: refused}
}

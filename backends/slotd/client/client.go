package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// Options tune a [Client]. The zero value is usable.
type Options struct {
	Token string
	ID    string // name of the box; empty: random
	Dir   string // working directory of commands that name none; empty: the server's
	// Close removes the box itself. It is called by the first Close, and by later ones as
	// long as it fails.
	Close func(ctx context.Context) error
	// Called gets the path of every call, below /v1/, before it is sent. It may be nil.
	Called func(path string)
	// Silent is called, now and then, while the server says nothing to a call for longer than
	// a second, and says whether there was anything to do about it. nil: there never is.
	Silent func() (did bool)
	// Cause says why a box went away: an error that wraps backends.ErrBroken when its
	// own commands did it. nil, or a nil answer, means backends.ErrLost. It may have to
	// wait for somebody who knows; ctx is that of the call which found the box away.
	Cause func(ctx context.Context) error
}

// Client is a box with a slotd in it. It implements [backends.Sandbox] and all optional
// abilities but snapshots.
type Client struct {
	opt    Options
	dial   func(ctx context.Context) (net.Conn, error)
	web    *http.Client
	trans  *http.Transport
	ctx    context.Context // ends with Close; no argument hides in it
	cancel context.CancelCauseFunc
	ending sync.Mutex // held by a Close
	ended  bool       // the box is removed
}

var (
	_ backends.Sandbox   = (*Client)(nil)
	_ backends.Starter   = (*Client)(nil)
	_ backends.Stater    = (*Client)(nil)
	_ backends.Searcher  = (*Client)(nil)
	_ backends.Copier    = (*Client)(nil)
	_ backends.Forwarder = (*Client)(nil)
	_ backends.Streamer  = (*Client)(nil)
	_ backends.Resetter  = (*Client)(nil)
)

// New returns a client that opens its connections with dial. It connects lazily.
func New(dial func(ctx context.Context) (net.Conn, error), o Options) *Client {
	if o.ID == "" {
		o.ID = wire.NewID()
	}
	t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Client{opt: o, dial: dial, trans: t, web: &http.Client{Transport: t, CheckRedirect: noRedirect}, ctx: ctx, cancel: cancel}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ID implements backends.Sandbox.
func (c *Client) ID() string { return c.opt.ID }

// Dial opens a connection to the server, for a program that passes it on.
func (c *Client) Dial(ctx context.Context) (net.Conn, error) {
	c.called("dial")
	return c.dial(ctx)
}

// Close implements backends.Sandbox. Calls under way end with backends.ErrClosed. One that
// could not remove the box may be called again, and tries again.
func (c *Client) Close(ctx context.Context) error {
	c.cancel(backends.ErrClosed)
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.ended {
		return nil
	}
	defer c.trans.CloseIdleConnections()
	if c.opt.Close != nil {
		if err := c.opt.Close(ctx); err != nil {
			return err
		}
	}
	c.ended = true
	return nil
}

// bind makes a context that ends with the caller's and with Close.
func (c *Client) bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(backends.ErrClosed) })
	return ctx, func(err error) { stop(); cancel(err) }
}

// lost says whose doing a broken connection is: the caller's, Close's, or the box's loss.
func (c *Client) lost(ctx context.Context, what string, err error) error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, backends.ErrClosed)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if why := c.cause(ctx); why != nil {
		return fmt.Errorf("%s: %w (%w)", what, why, err)
	}
	return fmt.Errorf("%s: %w: %w", what, backends.ErrLost, err)
}

// cause asks the driver.
func (c *Client) cause(ctx context.Context) error {
	if c.opt.Cause == nil {
		return nil
	}
	return c.opt.Cause(ctx)
}

// send sends one request. Its error is a lost connection.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body io.Reader) (*http.Response, error) {
	c.called(path)
	r, err := http.NewRequestWithContext(ctx, method, "http://slotd/v1/"+path, body)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = q.Encode()
	if method == http.MethodPut && path == "file" {
		r.Header["X-Idempotency-Key"] = []string{} // not sent: it tells net/http to try again on a connection that was closed meanwhile
	}
	c.sign(r)
	return c.web.Do(r)
}

// called tells who wants to hear it about a call.
func (c *Client) called(path string) {
	if c.opt.Called != nil {
		c.opt.Called(path)
	}
}

// sign says who asks and in which version.
func (c *Client) sign(r *http.Request) {
	r.Header.Set(wire.ProtoHeader, strconv.Itoa(wire.Proto))
	if c.opt.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opt.Token)
	}
}

// call sends a request and gives the answer to read, unless it is a fault of the box's
// file system or of the request. name is the path of a file for errors about it.
func (c *Client) call(ctx context.Context, what, method, path string, q url.Values, body io.Reader, name string, read func(*http.Response) error) error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, backends.ErrClosed)
	}
	own, cancel := c.bind(ctx)
	defer cancel(nil)
	defer c.watchSilence().stop()
	size := int64(0)
	whole, ok := body.(*bytes.Reader)
	if ok {
		size = whole.Size()
	}
	w := watched(patience(method, path, size), cancel)
	defer w.stop()
	if body != nil && !ok {
		body = watchedReader{body, w}
	}
	r, err := c.send(own, method, path, q, body)
	if err != nil {
		return c.lost(ctx, what, because(own, err))
	}
	r.Body = watchedBody{watchedReader{r.Body, w}, r.Body}
	defer r.Body.Close()
	if r.StatusCode/100 != 2 {
		return c.refused(ctx, what, name, r)
	}
	if read == nil {
		return nil
	}
	if err := read(r); err != nil {
		var f *wire.RemoteError
		var pe *fs.PathError
		if errors.As(err, &f) || errors.As(err, &pe) {
			return err
		}
		return c.lost(ctx, what, because(own, err))
	}
	return nil
}

// because prefers the cause of a context's end to what came of it.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// refused reads an answer that is not the one asked for.
func (c *Client) refused(ctx context.Context, what, name string, r *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return c.lost(ctx, what, err)
	}
	if r.StatusCode == http.StatusGone {
		return c.lost(ctx, what, errors.New("the lease of this box is over"))
	}
	var f wire.Fault
	if r.StatusCode != http.StatusUnprocessableEntity || json.Unmarshal(text, &f) != nil {
		return c.lost(ctx, what, &statusError{r.StatusCode, string(text)})
	}
	return c.fromFault(ctx, what, name, f)
}

// statusError is an answer that is neither the one asked for nor a fault.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("slotd answers %d: %.200q", e.code, e.text) }

// fromFault turns a fault into the error of a call.
func (c *Client) fromFault(ctx context.Context, what, name string, f wire.Fault) error {
	if f.Kind == "closed" || f.Kind == "canceled" { // the box went, and not by our Close
		return c.lost(ctx, what, errors.New(f.Text))
	}
	err := f.Err(name)
	if f.Op != "" {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Health asks the server how it is.
func (c *Client) Health(ctx context.Context) (h wire.Health, err error) {
	err = c.call(ctx, "health", "GET", "health", nil, nil, "", readJSON(&h))
	if err == nil && h.Proto > wire.Proto {
		err = fmt.Errorf("slotd speaks protocol %d, this program %d: %w", h.Proto, wire.Proto, backends.ErrUnavailable)
	}
	return h, err
}

// Reset implements backends.Resetter.
func (c *Client) Reset(ctx context.Context, l backends.Level) (done backends.Cleaned, err error) {
	err = c.call(ctx, "reset", "POST", "reset", url.Values{"level": {string(l)}}, nil, "", readJSON(&done))
	return done, err
}

// Info asks the server what it can do.
func (c *Client) Info(ctx context.Context) (i wire.Info, err error) {
	err = c.call(ctx, "info", "GET", "info", nil, nil, "", readJSON(&i))
	return i, err
}

func readJSON(into any) func(*http.Response) error {
	return func(r *http.Response) error {
		return json.NewDecoder(io.LimitReader(r.Body, wire.MaxJSON)).Decode(into)
	}
}

// path makes a name absolute or relative to the client's own directory.
func (c *Client) path(name string) string {
	if c.opt.Dir == "" || strings.HasPrefix(name, "/") {
		return name
	}
	return wire.Join(c.opt.Dir, name)
}

func (c *Client) named(name string) url.Values { return url.Values{"path": {c.path(name)}} }

// ReadFile implements backends.Sandbox.
func (c *Client) ReadFile(ctx context.Context, name string, limit int64) (data []byte, err error) {
	if limit <= 0 {
		limit = wire.DefaultRead
	}
	q := c.named(name)
	q.Set("limit", strconv.FormatInt(limit, 10))
	err = c.call(ctx, "read "+name, "GET", "file", q, nil, name, func(r *http.Response) error {
		var buf bytes.Buffer
		if _, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1)); err != nil {
			return err
		}
		if int64(buf.Len()) > limit {
			return &fs.PathError{Op: "read", Path: name, Err: backends.ErrTooLarge}
		}
		data = buf.Bytes()
		if data == nil {
			data = []byte{}
		}
		return trailer(r, name)
	})
	if err != nil {
		data = nil
	}
	return data, err
}

// trailer reads the error that may follow a body.
func trailer(r *http.Response, name string) error {
	v := r.Trailer.Get(wire.ErrorTrailer)
	if v == "none" {
		return nil
	}
	var f wire.Fault
	text, err := strconv.Unquote(v)
	if err == nil {
		err = json.Unmarshal([]byte(text), &f)
	}
	if err != nil {
		return fmt.Errorf("answer without its end: %w", io.ErrUnexpectedEOF)
	}
	return f.Err(name)
}

// WriteFile implements backends.Sandbox.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	q := c.named(name)
	q.Set("mode", strconv.FormatInt(int64(perm), 10))
	return c.call(ctx, "write "+name, "PUT", "file", q, bytes.NewReader(data), name, nil)
}

// Stat implements backends.Stater.
func (c *Client) Stat(ctx context.Context, name string) (backends.FileInfo, error) {
	var f wire.File
	err := c.call(ctx, "stat "+name, "GET", "stat", c.named(name), nil, name, readJSON(&f))
	info := f.Info()
	info.Path = name
	return info, err
}

// List implements backends.Stater.
func (c *Client) List(ctx context.Context, name string, max int) ([]backends.FileInfo, error) {
	q := c.named(name)
	q.Set("max", strconv.Itoa(max))
	var files []wire.File
	if err := c.call(ctx, "list "+name, "GET", "list", q, nil, name, readJSON(&files)); err != nil {
		return nil, err
	}
	all := make([]backends.FileInfo, len(files))
	for i, f := range files {
		all[i] = f.Info()
	}
	return all, nil
}

// Search implements backends.Searcher.
func (c *Client) Search(ctx context.Context, q backends.Query) (f backends.Found, err error) {
	root := q.Root
	q.Root = c.path(q.Root)
	body, err := json.Marshal(q)
	if err != nil {
		return f, err
	}
	err = c.call(ctx, "search", "POST", "search", nil, bytes.NewReader(body), root, readJSON(&f))
	return f, err
}

// CopyIn implements backends.Copier.
func (c *Client) CopyIn(ctx context.Context, name string, stream io.Reader) error {
	return c.call(ctx, "copy into "+name, "PUT", "tar", c.named(name), stream, name, nil)
}

// CopyOut implements backends.Copier.
func (c *Client) CopyOut(ctx context.Context, name string, to io.Writer) error {
	var local error // an error of the writer is not the box's
	err := c.call(ctx, "copy from "+name, "GET", "tar", c.named(name), nil, name, func(r *http.Response) error {
		if _, err := io.Copy(localWriter{to, &local}, r.Body); err != nil {
			return err
		}
		return trailer(r, name)
	})
	if local != nil {
		return fmt.Errorf("copy from %s: %w", name, local)
	}
	return err
}

type localWriter struct {
	io.Writer
	err *error
}

func (w localWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	*w.err = err
	return n, err
}

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// cancelTime bounds the call that ends a command whose caller has left.
const cancelTime = 5 * time.Second

// Exec implements backends.Sandbox. A connection that breaks is followed by one attempt
// to join the same command again; nothing ever runs twice.
func (c *Client) Exec(ctx context.Context, cmd backends.Cmd) (backends.Result, error) {
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("exec: %w", err)
	}
	cmd.Dir = c.path(cmd.Dir)
	body, err := wire.EncodeCommand(cmd, backends.StartOptions{})
	if err != nil {
		return backends.Result{}, err
	}
	path := "exec/" + wire.NewID() + wire.NewID()
	r, broke, err := c.frames(ctx, "exec", "POST", path, body, cmd.MaxOutput)
	if broke && ctx.Err() == nil && c.ctx.Err() == nil {
		r, err = c.join(ctx, path, cmd.MaxOutput)
	}
	return r, c.left(ctx, path, err)
}

// join asks for the end of a command that the server may know.
func (c *Client) join(ctx context.Context, path string, limit int64) (backends.Result, error) {
	r, _, err := c.frames(ctx, "exec", "GET", path, nil, limit)
	if errors.As(err, new(*wire.RemoteError)) && !errors.Is(err, backends.ErrBroken) { // the server does not know it
		err = c.lost(ctx, "exec", err)
	}
	return r, err
}

// left ends a command whose caller has left, of which err is the sign.
func (c *Client) left(ctx context.Context, path string, err error) error {
	if err != nil && ctx.Err() != nil && c.ctx.Err() == nil {
		c.abandon(path)
	}
	return err
}

// Join waits for the end of a command that the server has adopted, and ends it where the
// caller does not wait. The result has no outputs.
func (c *Client) Join(ctx context.Context, exec string) (backends.Result, error) {
	path := "exec/" + exec
	r, broke, err := c.frames(ctx, "exec", "GET", path, nil, 0)
	if broke && ctx.Err() == nil && c.ctx.Err() == nil {
		r, err = c.join(ctx, path, 0)
	}
	return r, c.left(ctx, path, err)
}

// Lost says whose doing it is that the box does not answer, with err as the sign of it: the
// caller's, Close's, its commands' or ours.
func (c *Client) Lost(ctx context.Context, what string, err error) error {
	return c.lost(ctx, what, err)
}

// abandon ends a command whose caller has left.
func (c *Client) abandon(path string) {
	ctx, cancel := context.WithTimeout(c.ctx, cancelTime)
	defer cancel()
	if r, err := c.send(ctx, "DELETE", path, nil, nil); err == nil {
		r.Body.Close()
	}
}

// frames reads the answer of a command. broke says that the connection failed.
func (c *Client) frames(ctx context.Context, what, method, path string, body []byte, limit int64) (r backends.Result, broke bool, err error) {
	if c.ctx.Err() != nil {
		return r, false, fmt.Errorf("%s: %w", what, backends.ErrClosed)
	}
	own, cancel := c.bind(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(wire.Silence, func() { cancel(errors.New("no sign of life")) })
	defer watch.Stop()
	quiet := c.watchSilence()
	defer quiet.stop()
	resp, err := c.send(own, method, path, nil, bytes.NewReader(body))
	if err != nil {
		return r, true, c.lost(ctx, what, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return r, false, c.refused(ctx, what, "", resp)
	}
	if limit <= 0 {
		limit = wire.DefaultOutput
	}
	in := bufio.NewReader(resp.Body)
	for {
		kind, data, err := wire.ReadFrame(in, max(limit, 1<<20))
		if err != nil {
			return backends.Result{}, true, c.lost(ctx, what, err)
		}
		watch.Reset(wire.Silence)
		quiet.restart()
		switch kind {
		case wire.FrameOut:
			r.Stdout = append(r.Stdout, data...)
		case wire.FrameErr:
			r.Stderr = append(r.Stderr, data...)
		case wire.FrameKept:
			r.Kept = append(r.Kept, data...)
		case wire.FrameExit:
			err := fill(&r, data)
			if err != nil {
				err = c.lost(ctx, what, err)
			}
			io.Copy(io.Discard, io.LimitReader(in, 1)) // the end: the connection can be used again
			return r, false, err
		case wire.FrameError:
			var f wire.Fault
			if err := json.Unmarshal(data, &f); err != nil {
				return backends.Result{}, false, c.lost(ctx, what, err)
			}
			return backends.Result{}, false, c.fromFault(ctx, what, "", f)
		case wire.FrameBeat:
		default:
			return backends.Result{}, false, c.lost(ctx, what, fmt.Errorf("frame of unknown type %d", kind))
		}
		if len(r.Kept) > backends.MaxKept {
			return backends.Result{}, false, c.lost(ctx, what, fmt.Errorf("a kept file of more than %d bytes", backends.MaxKept))
		}
		if most := max(limit, 64<<10); int64(len(r.Stdout)) > most || int64(len(r.Stderr)) > most {
			return backends.Result{}, false, c.lost(ctx, what, fmt.Errorf("more output than the %d bytes asked for", limit))
		}
	}
}

// fill takes the exit frame into a result.
func fill(r *backends.Result, data []byte) error {
	var x wire.Exit
	if err := json.Unmarshal(data, &x); err != nil {
		return fmt.Errorf("exit frame: %w", err)
	}
	x.Fill(r)
	return nil
}

// Start implements backends.Starter.
func (c *Client) Start(ctx context.Context, cmd backends.Cmd, o backends.StartOptions) (backends.Process, error) {
	cmd.Dir = c.path(cmd.Dir)
	body, err := wire.EncodeCommand(cmd, o)
	if err != nil {
		return nil, err
	}
	var s wire.Started
	if err := c.call(ctx, "start", "POST", "process", nil, bytes.NewReader(body), "", readJSON(&s)); err != nil {
		return nil, err
	}
	if o.Buffer <= 0 {
		o.Buffer = wire.DefaultOutput
	}
	return &remoteProcess{c: c, started: s, buffer: o.Buffer, path: "process/" + url.PathEscape(s.ID)}, nil
}

// remoteProcess is a background command in the box.
type remoteProcess struct {
	c       *Client
	started wire.Started
	buffer  int64
	path    string
}

func (p *remoteProcess) ID() string { return p.started.ID }

func (p *remoteProcess) PID() int { return p.started.PID }

func (p *remoteProcess) Output(ctx context.Context, off, max int64) (data []byte, first, next int64, err error) {
	data, first, _, err = p.output(ctx, off, max)
	return data, first, first + int64(len(data)), err
}

func (p *remoteProcess) Log(ctx context.Context) (data []byte, first, lines int64, err error) {
	return p.output(ctx, 0, 0)
}

func (p *remoteProcess) output(ctx context.Context, off, max int64) (data []byte, first, lines int64, err error) {
	q := url.Values{"off": {strconv.FormatInt(off, 10)}, "max": {strconv.FormatInt(max, 10)}}
	err = p.c.call(ctx, "output of process "+p.ID(), "GET", p.path, q, nil, "", func(r *http.Response) error {
		first, err = strconv.ParseInt(r.Header.Get("X-First"), 10, 64)
		if err != nil {
			return err
		}
		lines, err = strconv.ParseInt(r.Header.Get("X-Lines"), 10, 64)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(io.LimitReader(r.Body, p.buffer))
		return err
	})
	return data, first, lines, err
}

func (p *remoteProcess) Write(ctx context.Context, data []byte) error {
	return p.c.call(ctx, "write to process "+p.ID(), "PUT", p.path+"/stdin", nil, bytes.NewReader(data), "", nil)
}

func (p *remoteProcess) CloseStdin(ctx context.Context) error {
	return p.c.call(ctx, "close input of process "+p.ID(), "PUT", p.path+"/stdin", url.Values{"eof": {"1"}}, nil, "", nil)
}

func (p *remoteProcess) Resize(ctx context.Context, rows, cols uint16) error {
	q := url.Values{"rows": {strconv.Itoa(int(rows))}, "cols": {strconv.Itoa(int(cols))}}
	return p.c.call(ctx, "resize process "+p.ID(), "PUT", p.path+"/size", q, nil, "", nil)
}

func (p *remoteProcess) Wait(ctx context.Context) (backends.Result, error) {
	r, broke, err := p.c.frames(ctx, "wait for process "+p.ID(), "GET", p.path+"/wait", nil, 0)
	if broke && ctx.Err() == nil && p.c.ctx.Err() == nil {
		r, _, err = p.c.frames(ctx, "wait for process "+p.ID(), "GET", p.path+"/wait", nil, 0)
	}
	return r, err
}

func (p *remoteProcess) Kill(ctx context.Context, grace time.Duration) error {
	q := url.Values{"grace_ms": {strconv.FormatInt(grace.Milliseconds(), 10)}}
	return p.c.call(ctx, "kill process "+p.ID(), "DELETE", p.path, q, nil, "", nil)
}

// Forward implements backends.Forwarder on a separate connection.
func (c *Client) Forward(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	what := fmt.Sprintf("forward to port %d", port)
	if c.ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", what, backends.ErrClosed)
	}
	f, err := c.upgrade(ctx, what, "forward?port="+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	f.stop = context.AfterFunc(c.ctx, func() { f.Conn.Close() })
	return f, nil
}

// upgrade opens a connection that is no longer HTTP after its first answer.
func (c *Client) upgrade(ctx context.Context, what, path string) (*forwarded, error) {
	c.called(path)
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.lost(ctx, what, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	in, err := c.switchOver(ctx, what, path, conn)
	if !stop() && err == nil {
		err = c.lost(ctx, what, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &forwarded{Conn: conn, in: in, stop: func() bool { return true }}, nil
}

func (c *Client) switchOver(ctx context.Context, what, path string, conn net.Conn) (*bufio.Reader, error) {
	r, err := http.NewRequest("POST", "http://slotd/v1/"+path, nil)
	if err != nil {
		return nil, err
	}
	c.sign(r)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "tcp")
	if err := r.Write(conn); err != nil {
		return nil, c.lost(ctx, what, err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, c.lost(ctx, what, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		return nil, c.refused(ctx, what, "", resp)
	}
	return in, nil
}

// forwarded is a connection to a port in the box.
type forwarded struct {
	net.Conn
	in   *bufio.Reader
	stop func() bool
}

func (f *forwarded) Read(p []byte) (int, error) { return f.in.Read(p) }

func (f *forwarded) Close() error {
	f.stop()
	return f.Conn.Close()
}

// CloseWrite ends one direction, where the connection can.
func (f *forwarded) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

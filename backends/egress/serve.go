package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"
)

// serve handles one request, which is the only one of its connection.
func (d *BoxProxy) serve(w http.ResponseWriter, r *http.Request) {
	d.busy.Add(1)
	d.proxy.books.total.Add(1)
	defer d.busy.Add(-1)
	defer d.proxy.books.total.Add(-1)
	host, port, err := target(r)
	if err != nil {
		d.refuse(w, "", err)
		return
	}
	name := net.JoinHostPort(host, strconv.Itoa(int(port)))
	if err := d.room(); err != nil {
		d.refuse(w, name, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTime)
	defer cancel()
	to, err := d.proxy.admit(ctx, host, port)
	if err != nil {
		d.refuse(w, name, err)
		return
	}
	conn, err := d.proxy.dial(ctx, to)
	if err != nil {
		d.refuse(w, name, err)
		return
	}
	d.tell("connect", name, "")
	up := &upstream{Conn: conn, proxy: d}
	defer up.Close()
	defer context.AfterFunc(d.ctx, func() { up.Close() })()
	if r.Method == http.MethodConnect {
		d.tunnel(w, up)
		return
	}
	d.pass(w, r, up)
}

// target is where a request wants to go.
func target(r *http.Request) (host string, port uint16, err error) {
	bad := &refusal{400, "bad-request", "this is the proxy of a box: it takes CONNECT HOST:PORT, and requests with a whole http:// address"}
	switch {
	case r.Method == http.MethodConnect:
		if r.URL.Path != "" || r.URL.User != nil || r.URL.Port() == "" {
			return "", 0, bad
		}
	case r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.Opaque != "":
		return "", 0, bad
	}
	port = 80
	if text := r.URL.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return "", 0, bad
		}
		port = uint16(n)
	}
	host = r.URL.Hostname()
	if host == "" || len(host) > 255 {
		return "", 0, bad
	}
	return host, port, nil
}

// room says what bound the box has run into.
func (d *BoxProxy) room() error {
	c := d.proxy.conf
	switch {
	case d.left.Load() <= 0:
		return &refusal{403, "bytes", fmt.Sprintf("this box has used up its %d bytes of network (%s.bytes)", c.Bytes, d.proxy.key)}
	case d.busy.Load() > int64(c.Connections):
		return &refusal{503, "connections", fmt.Sprintf("this box has %d connections already (%s.connections)", c.Connections, d.proxy.key)}
	case d.proxy.books.total.Load() > maxTotal:
		return &refusal{503, "total", fmt.Sprintf("all boxes together have %d connections already", maxTotal)}
	}
	return nil
}

// refuse answers with what is wrong and what to change.
func (d *BoxProxy) refuse(w http.ResponseWriter, target string, err error) {
	r := &refusal{status: 502, reason: "failed", text: err.Error()}
	errors.As(err, &r)
	d.tell("refuse", target, r.reason)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Hermes-Refused", r.reason)
	w.WriteHeader(r.status)
	fmt.Fprintln(w, "hermes:", r.text)
}

// tunnel joins the box with the other end until either is done.
func (d *BoxProxy) tunnel(w http.ResponseWriter, up *upstream) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if g, ok := c.(*guest); ok {
		g.joined.Store(true)
	}
	c.SetDeadline(time.Time{})
	defer context.AfterFunc(d.ctx, func() { c.Close() })()
	up.watch(d.proxy.conf.Idle, func() { c.Close() })
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		if _, err := io.Copy(c, up); err != nil {
			c.Close()
		} else if half, ok := c.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	})
	if _, err := io.Copy(up, buf.Reader); err != nil { // with what the box sent ahead
		up.Close()
	} else {
		up.CloseWrite()
	}
	back.Wait()
}

// pass sends a plain request on, over the connection that was made for it.
func (d *BoxProxy) pass(w http.ResponseWriter, r *http.Request, up *upstream) {
	control := http.NewResponseController(w)
	past := time.Unix(1, 0)
	up.watch(d.proxy.conf.Idle, func() { // also frees an answer that the box does not read
		control.SetReadDeadline(past)
		control.SetWriteDeadline(past)
	})
	used := false
	web := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10, ResponseHeaderTimeout: answerTime,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, errors.New("one connection for one request")
			}
			used = true
			return up, nil
		},
	}
	forward := &httputil.ReverseProxy{
		Transport: web, FlushInterval: -1, ErrorLog: stdlog.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery = p.In.URL.RawQuery // as it is, also what we could not parse
			p.Out.Host = p.In.URL.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			d.refuse(w, "", &refusal{502, "broken", fmt.Sprintf("the target did not answer properly: %v", err)})
		},
	}
	defer func() { // the answer broke off: so must ours
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		} else if v != nil {
			control.SetWriteDeadline(past)
			panic(v)
		}
	}()
	forward.ServeHTTP(w, r)
}

// upstream is the connection to the target. It counts bytes, and is closed when none
// passes for a time.
type upstream struct {
	net.Conn
	proxy *BoxProxy
	mu    sync.Mutex
	timer *time.Timer
	idle  time.Duration
	once  sync.Once
}

// watch closes the connection, and calls then, when nothing passes for a time.
func (u *upstream) watch(idle time.Duration, then func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.idle = idle
	u.timer = time.AfterFunc(idle, func() {
		u.Close()
		then()
	})
}

// count notes bytes that passed.
func (u *upstream) count(n int) error {
	u.mu.Lock()
	if u.timer != nil && n > 0 {
		u.timer.Reset(u.idle)
	}
	u.mu.Unlock()
	if u.proxy.left.Add(int64(-n)) < 0 {
		u.Close()
		u.proxy.tell("refuse", "", "bytes")
		return errors.New("the bytes of this box are used up")
	}
	return nil
}

// Read implements net.Conn.
func (u *upstream) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	if over := u.count(n); over != nil {
		return 0, over
	}
	return n, err
}

// Write implements net.Conn.
func (u *upstream) Write(p []byte) (int, error) {
	if err := u.count(len(p)); err != nil {
		return 0, err
	}
	return u.Conn.Write(p)
}

// CloseWrite ends one direction.
func (u *upstream) CloseWrite() error {
	if half, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (u *upstream) Close() (err error) {
	u.once.Do(func() {
		err = u.Conn.Close()
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.timer != nil {
			u.timer.Stop()
		}
	})
	return err
}

package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// What is out of the ordinary goes through net/http.
const (
	maxDirect   = 1 << 20          // bytes of a body: a larger one may have to be written while its answer is read
	maxHeader   = 1 << 20          // bytes of an answer's header
	idleLink    = 90 * time.Second // after which a kept connection is not used again
	maxInterims = 8                // answers with a status of 1xx before the real one
)

// direct sends plain HTTP/1.1 over kept connections without a goroutine or a second
// buffer for each: a rollout's own goroutine writes the request and reads the answer.
// That halves the processor time of a turn and the memory of a rollout that waits.
// Everything else (https, proxies, bodies that are not ours, upgrades, odd hosts and
// headers) goes through net/http. It is safe for concurrent use.
type direct struct {
	rest  *http.Transport
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	proxy func(*http.Request) (*url.URL, error)
	keep  int // idle connections of each host

	mu    sync.Mutex
	hosts map[string]*host
}

// host is one server, by the host part of its URLs.
type host struct {
	addr string  // to dial; "": net/http has to do it
	idle []*link // the last one used at the end
}

func newDirect(o Options) *direct {
	dialer := &net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}
	return &direct{rest: transport(o, dialer), dial: dialer.DialContext, proxy: o.Proxy, keep: o.Concurrency, hosts: map[string]*host{}}
}

// RoundTrip sends req and returns when the answer's header is read.
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	body, ok := simple(req)
	if !ok {
		return d.rest.RoundTrip(req)
	}
	addr, l := d.take(req)
	if addr == "" {
		return d.rest.RoundTrip(req)
	}
	if l == nil {
		conn, err := d.dial(req.Context(), "tcp", addr)
		if err != nil {
			if body != nil {
				_ = body.Close()
			}
			return nil, err
		}
		l = newLink(conn)
	}
	return l.exchange(req, body, d.put)
}

// CloseIdleConnections closes the connections that nobody uses.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hosts {
		closeAll(h.idle)
		h.idle = nil
	}
	d.rest.CloseIdleConnections()
}

// take returns the address of a request's host and an idle connection that still stands,
// or nil. No address: the request is not for us.
func (d *direct) take(req *http.Request) (string, *link) {
	for {
		d.mu.Lock()
		h := d.hosts[req.URL.Host]
		if h == nil {
			h = &host{addr: d.address(req)}
			d.hosts[req.URL.Host] = h
		}
		var l *link
		if n := len(h.idle); n > 0 {
			l, h.idle[n-1] = h.idle[n-1], nil
			h.idle = h.idle[:n-1]
		}
		d.mu.Unlock()
		if l == nil || l.alive() {
			return h.addr, l
		}
		l.close()
	}
}

// address is where a request's host listens, or "" where only net/http can tell.
func (d *direct) address(req *http.Request) string {
	if d.proxy != nil {
		if via, err := d.proxy(req); via != nil || err != nil {
			return ""
		}
	}
	name, port := req.URL.Hostname(), req.URL.Port()
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '/' || c == '\\' {
			return "" // an international name, a zone of IPv6
		}
	}
	if port == "" {
		port = "80"
	}
	if name == "" {
		return ""
	}
	return net.JoinHostPort(name, port)
}

// put keeps a connection for the next request, and drops those that nobody wanted.
func (d *direct) put(l *link) {
	l.parked = time.Now()
	d.mu.Lock()
	h := d.hosts[l.host]
	old := 0
	for old < len(h.idle) && (l.parked.Sub(h.idle[old].parked) > idleLink || len(h.idle)-old >= d.keep) {
		old++
	}
	stale := h.idle[:old:old]
	if old > 0 {
		stale = append([]*link(nil), stale...)
		h.idle = append(h.idle[:0], h.idle[old:]...)
	}
	h.idle = append(h.idle, l)
	d.mu.Unlock()
	closeAll(stale)
}

func closeAll(list []*link) {
	for _, l := range list {
		l.close()
	}
}

// simple reports whether a request is of the kind that we send ourselves.
func simple(req *http.Request) (body Body, ok bool) {
	if req.URL.Scheme != "http" || req.URL.User != nil || req.URL.Opaque != "" || req.Host != "" || req.Close ||
		len(req.TransferEncoding) > 0 || req.Trailer != nil || req.Method != http.MethodPost && req.Method != http.MethodGet {
		return nil, false
	}
	if req.Body != nil {
		if body, ok = req.Body.(Body); !ok || body.Len() != req.ContentLength || body.Len() > maxDirect {
			return nil, false
		}
	}
	for k, values := range req.Header {
		switch k {
		case "Connection", "Upgrade", "Expect", "Te", "Transfer-Encoding", "Trailer", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection":
			return nil, false
		}
		for _, v := range values {
			if !field(v) {
				return nil, false
			}
		}
		if !token(k) {
			return nil, false
		}
	}
	return body, true
}

// field reports whether s may be a header's value.
func field(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// token reports whether s may be a header's name.
func token(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != ""
}

// Body is a request's body that knows how much of it is left and what it is made of.
type Body interface {
	io.ReadCloser
	io.WriterTo
	Len() int64
	// Pieces appends what is left to list, uncopied. It must not be changed afterwards.
	Pieces(list net.Buffers) net.Buffers
}

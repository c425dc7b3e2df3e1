package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// transport is net/http's with small buffers for each connection, since there are as
// many connections as requests in flight; large bodies pass them by, see [conn].
func transport(o Options, dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		Proxy: o.Proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &conn{c}, nil
		},
		TLSHandshakeTimeout:    o.Connect,
		MaxIdleConnsPerHost:    o.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// conn writes a body that can write itself without a copy through a buffer: net/http
// hides it in a LimitedReader, which would cost 32 KiB of garbage a request.
type conn struct{ net.Conn }

// ReadFrom writes all of r.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if b, ok := l.R.(Body); ok && b.Len() == l.N {
			n, err := b.WriteTo(c.Conn)
			l.N -= n
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// maxInterims bounds the answers with a status of 1xx before the real one.
const maxInterims = 8

// Body is a request's body that knows how much of it is left.
type Body interface {
	io.ReadCloser
	io.WriterTo
	Len() int64
}

// transport is net/http's, with what it does not promise: a kept connection is looked at
// before it is used again, a refusal that comes before the request was read is not lost, and
// what no HTTP/1 server says is refused. docs/decisions/net-http.md says why. It is safe for
// concurrent use.
type transport struct{ *http.Transport }

func newTransport(o Options) transport {
	dialer := &net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}
	return transport{&http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return newConn(c)
		},
		TLSHandshakeTimeout:    o.Connect,
		MaxIdleConnsPerHost:    o.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 1 << 20,
	}}
}

// RoundTrip sends req and returns when the answer's header is read.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &round{}
	trace := &httptrace.ClientTrace{GotConn: r.begin, PutIdleConn: r.end, Got1xxResponse: r.interim}
	resp, err := t.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, err
	}
	second := resp.TLS != nil && resp.TLS.NegotiatedProtocol == "h2"
	if resp.StatusCode < 100 || resp.ProtoMajor != 1 && !second {
		_ = resp.Body.Close() // the connection goes with it
		return nil, fmt.Errorf("the answer is no HTTP/1: %s %.100q", resp.Proto, resp.Status)
	}
	return resp, nil
}

// round is one request on its way. net/http calls its methods one after the other.
type round struct {
	on       *conn // nil: under TLS
	interims int
}

func (r *round) begin(i httptrace.GotConnInfo) {
	r.on, _ = i.Conn.(*conn)
	if r.on != nil {
		r.on.begin(i.Reused)
	}
}

func (r *round) end(err error) {
	if r.on != nil && err == nil {
		r.on.rest()
	}
}

func (r *round) interim(int, textproto.MIMEHeader) error {
	r.interims++
	if r.interims > maxInterims {
		return fmt.Errorf("more than %d informational answers", maxInterims)
	}
	return nil
}

package wire

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// player is a connection on which a server says what was recorded.
type player struct{ in *bytes.Reader }

func (p *player) Read(b []byte) (int, error)       { return p.in.Read(b) }
func (p *player) Write(b []byte) (int, error)      { return len(b), nil }
func (p *player) Close() error                     { return nil }
func (p *player) LocalAddr() net.Addr              { return nil }
func (p *player) RemoteAddr() net.Addr             { return nil }
func (p *player) SetDeadline(time.Time) error      { return nil }
func (p *player) SetReadDeadline(time.Time) error  { return nil }
func (p *player) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswer checks that no answer is read otherwise than net/http reads it: what we take
// whole is whole, with the same status and body, and a connection is used again only
// where net/http finds the next answer at the same place.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: \xe65\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 204 No\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTrailer: A, trailer\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nConnection: \u212aeep-alive\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\u00a0\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\nConnection: keep-alive, x\nContent-Length: 2\n\nok",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	req := (&http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "x", Path: "/"}, Header: http.Header{}}).WithContext(context.Background())
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := false
		l := newLink(&player{bytes.NewReader(raw)})
		ours, err := l.exchange(req, nil, func(*link) { kept = true })
		if err != nil {
			return
		}
		body, err := io.ReadAll(ours.Body)
		if err != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		theirs, err := http.ReadResponse(in, req)
		for err == nil && theirs.StatusCode < 200 && theirs.StatusCode != http.StatusSwitchingProtocols {
			theirs, err = http.ReadResponse(in, req)
		}
		if err != nil {
			t.Fatalf("%q: net/http says %v", raw, err)
		}
		want, err := io.ReadAll(theirs.Body)
		if err != nil {
			t.Fatalf("%q: net/http reads %q, then %v", raw, want, err)
		}
		if ours.StatusCode != theirs.StatusCode || !bytes.Equal(body, want) {
			t.Fatalf("%q: %d %q; net/http: %d %q", raw, ours.StatusCode, body, theirs.StatusCode, want)
		}
		if !kept {
			return
		}
		if theirs.Close {
			t.Fatalf("%q: the connection is kept, net/http closes it", raw)
		}
		rest, _ := io.ReadAll(l.in)
		restTheirs, _ := io.ReadAll(in)
		if !bytes.Equal(rest, restTheirs) {
			t.Fatalf("%q: %q is left, for net/http %q", raw, rest, restTheirs)
		}
	})
}

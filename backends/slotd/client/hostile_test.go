package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/client"
)

// liar is a server that answers every connection with fixed bytes.
func liar(t *testing.T, answer []byte) *client.Client {
	c := client.New(func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			go io.Copy(io.Discard, theirs)
			theirs.Write(answer)
			theirs.Close()
		}()
		return ours, nil
	}, client.Options{})
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

const okHead = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

// FuzzAnswers: whatever a box answers, the client ends with a result or an error, and
// keeps no more than it asked for.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"", "x", "HTTP/1.1 200 OK\r\n\r\n", okHead, okHead + "\x01\x00\x00\x00\x03abc",
		okHead + "\x01\x00\x00\x00\x01a\x03\x00\x00\x00\x0a{\"code\":3}", okHead + "\x01\xff\xff\xff\xff", okHead + "\x07\x00\x00\x00\x00",
		"HTTP/1.1 422 No\r\nContent-Length: 21\r\n\r\n{\"kind\":\"permission\"}", "HTTP/1.1 302 Go\r\nLocation: http://elsewhere/\r\n\r\n",
		okHead + "\x05\x00\x00\x00\x11{\"kind\":\"broken\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := liar(t, answer)
		r, err := c.Exec(t.Context(), backends.Cmd{Shell: "true", MaxOutput: 10})
		if err == nil && len(r.Stdout)+len(r.Stderr) > 2<<16 {
			t.Errorf("%d bytes kept", len(r.Stdout)+len(r.Stderr))
		}
		if data, err := c.ReadFile(t.Context(), "f", 10); err == nil && len(data) > 10 {
			t.Errorf("%d bytes read", len(data))
		}
	})
}

func TestStreamWithoutExitIsLost(t *testing.T) {
	for _, s := range []string{okHead, okHead + "\x01\x00\x00\x00\x03abc", okHead + "\x01\x00\xff\xff\xff", okHead + "\x09\x00\x00\x00\x00",
		"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"} {
		if r, err := liar(t, []byte(s)).Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
			t.Errorf("%q: %+v, %v", s, r, err)
		}
	}
}

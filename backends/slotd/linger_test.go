package slotd_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd"
)

// slow reads in small pieces from a socket with a small buffer, so that the end of what
// the server sends waits in the server.
func slow(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		err = c.(*net.TCPConn).SetReadBuffer(4096)
	}
	return c, err
}

// TestStreamUnread: a command that ends without its input has its whole output and its
// exit code delivered, although the server has not read all that the client sent.
func TestStreamUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- slotd.Serve(ctx, l, slotd.ServerOptions{Options: slotd.Options{Home: t.TempDir()}, Token: token})
	}()
	c := slotd.NewClient(func(ctx context.Context) (net.Conn, error) { return slow(ctx, l.Addr().String()) }, slotd.ClientOptions{Token: token})
	for i := range 3 {
		for _, cmd := range []backends.Cmd{{Argv: []string{"hermes-no-such-program"}}, {Shell: "head -c 40000 /dev/zero; exit 127"}} {
			r, err := c.Stream(t.Context(), cmd, backends.Streams{In: bytes.NewReader(make([]byte, 2<<20))})
			if err != nil || r.Code != 127 {
				t.Fatalf("try %d, %q: %+v, %v", i, cmd.Shell, r, err)
			}
		}
	}
	c.Close(context.Background())
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

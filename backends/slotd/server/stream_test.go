package server_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
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
		ended <- server.Serve(ctx, l, server.Options{Options: host.Options{Home: t.TempDir()}, Token: token})
	}()
	c := client.New(func(ctx context.Context) (net.Conn, error) { return slow(ctx, l.Addr().String()) }, client.Options{Token: token})
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

// TestClosedStreams: a command that closes its streams and goes on is waited for, or ended
// when its time is over.
func TestClosedStreams(t *testing.T) {
	b, err := (&servers{t: t, boxes: map[string]*served{}}).open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	r, err := b.Exec(t.Context(), backends.Cmd{Shell: "echo said; exec <&- >&- 2>&-; sleep 0.2; exit 5"})
	if err != nil || r.Code != 5 || string(r.Stdout) != "said\n" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = b.Exec(t.Context(), backends.Cmd{Shell: "exec <&- >&- 2>&-; sleep 1000", Timeout: 100 * time.Millisecond})
	if err != nil || !r.TimedOut || r.Code != 124 {
		t.Errorf("%+v, %v", r, err)
	}
}

//go:build linux

package station

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestJoinLateWords: what a box answered before it left reaches a client that was still
// speaking, although the box cannot take its words any more.
func TestJoinLateWords(t *testing.T) {
	for range 100 {
		client, front := pair(t)
		box, server := pair(t)
		if _, err := io.WriteString(server, "the answer"); err != nil {
			t.Fatal(err)
		}
		server.Close()
		if _, err := io.WriteString(client, "too late"); err != nil {
			t.Fatal(err)
		}
		p := &passing{to: func(context.Context) (net.Conn, error) { return box, nil }}
		p.all.Go(func() { p.join(t.Context(), front) })
		got, err := io.ReadAll(client)
		if string(got) != "the answer" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		client.Close()
		p.all.Wait() // the joint ends with the client
	}
}

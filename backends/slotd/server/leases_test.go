//go:build linux

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
)

// leased starts a server with leases and returns its administrator, its home and how to
// make clients.
func leased(t *testing.T, o server.Options) (admin *client.Client, home string, as func(token string) *client.Client, ended <-chan error) {
	t.Helper()
	home = t.TempDir()
	o.Home = home
	o.Resets = true
	o.Token = token
	o.Leases = true
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		done <- server.Serve(ctx, l, o)
		close(gone)
	}()
	as = func(token string) *client.Client {
		c := client.New(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sock)
		}, client.Options{Token: token})
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	t.Cleanup(func() {
		stop()
		<-gone
	})
	return as(token), home, as, done
}

func TestLeaseLife(t *testing.T) {
	admin, home, as, _ := leased(t, server.Options{})
	ctx := t.Context()
	if _, err := admin.Exec(ctx, backends.Cmd{Shell: "true"}); err == nil {
		t.Error("a command without a lease")
	}
	ask := wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Hour}
	l, err := admin.Lease(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := admin.Lease(ctx, ask); err != nil || again.ID != l.ID || again.Token != l.Token {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if _, err := admin.Lease(ctx, wire.LeaseRequest{Key: "k", Owner: "you", TTL: time.Hour}); !errors.Is(err, client.ErrTaken) {
		t.Errorf("second owner: %v", err)
	}
	box := as(l.Token)
	if r, err := box.Exec(ctx, backends.Cmd{Shell: "echo secret > .x; (setsid sleep 1000 &); pwd"}); err != nil || strings.TrimSpace(string(r.Stdout)) != home {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := as("guess").Exec(ctx, backends.Cmd{Shell: "true"}); err == nil {
		t.Error("a wrong token")
	}
	if _, err := box.Lease(ctx, ask); err == nil {
		t.Error("the lease's token is not the administrator's")
	}
	if r, err := admin.Renew(ctx, l.ID, time.Minute); err != nil || r.TTL != time.Minute {
		t.Errorf("renew: %+v, %v", r, err)
	}
	done, err := admin.GiveBack(ctx, l.ID, backends.ResetFiles)
	if err != nil || len(done.Left) > 0 || done.Removed != 1 {
		t.Errorf("give back: %+v, %v", done, err)
	}
	if again, err := admin.GiveBack(ctx, l.ID, backends.ResetFiles); err != nil || again.Removed != done.Removed {
		t.Errorf("given back twice: %+v, %v", again, err)
	}
	if _, err := box.Exec(ctx, backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("a lease that is over: %v", err)
	}
	if _, err := admin.Renew(ctx, l.ID, time.Minute); !errors.Is(err, backends.ErrLost) {
		t.Errorf("renew a lease that is over: %v", err)
	}
	next, err := admin.Lease(ctx, wire.LeaseRequest{Key: "k", Owner: "you", TTL: time.Hour})
	if err != nil || next.ID == l.ID || next.Token == l.Token {
		t.Fatalf("the next lease: %+v, %v", next, err)
	}
	if r, err := as(next.Token).Exec(ctx, backends.Cmd{Shell: "ls -A"}); err != nil || len(r.Stdout) > 0 {
		t.Errorf("left for the next: %q, %v", r.Stdout, err)
	}
}

// TestExpiredLeaseWipes: an owner that does not come back loses the box, and nothing of
// his is left.
func TestExpiredLeaseWipes(t *testing.T) {
	admin, home, as, _ := leased(t, server.Options{})
	l, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	box := as(l.Token)
	if err := box.WriteFile(t.Context(), "f", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	p, err := box.Start(t.Context(), backends.Cmd{Shell: "exec sleep 1000"}, backends.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Renew(t.Context(), l.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, backends.ErrLost) { // ends when the lease does
		t.Errorf("wait: %v", err)
	}
	// The home shares its machine, so a full wipe cannot be vouched for: dirty.
	for {
		h, err := admin.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Dirty {
			break
		}
	}
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Second}); !errors.Is(err, client.ErrRetired) {
		t.Errorf("a dirty slot was leased: %v", err)
	}
}

func TestDirtySlotIsRetired(t *testing.T) {
	admin, home, as, _ := leased(t, server.Options{})
	l, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := as(l.Token).Exec(t.Context(), backends.Cmd{Shell: "cd /; mv " + home + " " + home + ".away && mkdir " + home}); err != nil || r.Code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if done, err := admin.GiveBack(t.Context(), l.ID, backends.ResetFiles); err != nil || len(done.Left) == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Hour}); !errors.Is(err, client.ErrRetired) {
		t.Errorf("lease: %v", err)
	}
}

func TestDrainEndsTheServer(t *testing.T) {
	admin, _, as, ended := leased(t, server.Options{})
	l, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "me", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Lease(t.Context(), wire.LeaseRequest{Key: "k", Owner: "you", TTL: time.Hour}); !errors.Is(err, client.ErrRetired) {
		t.Errorf("lease of a drained server: %v", err)
	}
	if _, err := as(l.Token).Exec(t.Context(), backends.Cmd{Shell: "true"}); err != nil {
		t.Errorf("the lease in force: %v", err)
	}
	admin.GiveBack(t.Context(), l.ID, backends.ResetFiles) // the answer may be cut off by the end
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOrphanedServerEnds(t *testing.T) {
	_, _, _, ended := leased(t, server.Options{Orphan: 50 * time.Millisecond})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLaterProtocolIsRefused: both sides refuse what they do not know.
func TestLaterProtocolIsRefused(t *testing.T) {
	s := newServers(t)
	b, err := s.open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	c, err := net.Dial("unix", b.conn(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nX-Slotd-Proto: %d\r\n\r\n", token, wire.Proto+1)
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), fmt.Sprint(http.StatusUnprocessableEntity)) || !strings.Contains(string(answer), "speaks protocol") {
		t.Errorf("%s, %v", answer, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	later := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true,"proto":99}`) })}
	go later.Serve(l)
	defer later.Close()
	old := client.New(func(ctx context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, client.Options{})
	defer old.Close(context.Background())
	if _, err := old.Health(t.Context()); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("a server of a later version: %v", err)
	}
}

//go:build linux

package docker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
	"hermes/backends/pool"
)

// meddled opens a back-end whose calls of an engine go wrong.
func meddled(t *testing.T, host string, c docker.Config) (*docker.Backend, *backendtest.Meddler) {
	t.Helper()
	path := strings.TrimPrefix(host, "unix://")
	m := backendtest.NewMeddler(url.URL{Scheme: "http", Host: "engine"}, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}, 9)
	dir, err := os.MkdirTemp("", "hermes-fake-") // short: a socket's path ends at 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Serve(l))
	c.Host = "unix://" + l.Addr().String()
	b, err := docker.Open(t.Context(), c, docker.Surroundings{Tell: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b, m
}

// ordeal bears faults in the calls of an engine, and boxes that die.
func ordeal(t *testing.T, b *docker.Backend, m *backendtest.Meddler, want int, left func() ([]string, error)) {
	m.Begin(0.12)
	backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: m.Injected, Want: want, Heal: m.Heal, Answers: true,
		Kill: func(x backends.Sandbox) error { return b.Kill(x.ID()) }, Left: left,
		Options: pool.Options{Max: 4, Breaker: 100, Seed: 3}})
	t.Log(m.Kinds())
}

// TestFaults: whatever goes wrong between hermes and an engine, no container is left.
func TestFaults(t *testing.T) {
	e, host := newProcesses(t)
	want := 100
	if *long {
		want = 1000
	}
	b, m := meddled(t, host, docker.Config{Image: "fake", Slotd: builtServer(t)})
	ordeal(t, b, m, want, func() ([]string, error) { return e.names(), nil })
	if e.most > 8 {
		t.Errorf("%d containers at once for 4 boxes", e.most)
	}
}

// TestFaultsOfAnEngine is the same with a real one.
func TestFaultsOfAnEngine(t *testing.T) {
	host := engineHost(t)
	want := 40
	if *long {
		want = 1000
	}
	b, m := meddled(t, host, docker.Config{Image: testImage, Slotd: builtServer(t)})
	ordeal(t, b, m, want, func() ([]string, error) { return containers(t, host, backends.Self().String()), nil })
}

// TestRemovalFails: a box that the engine does not remove stays in the books, and goes
// with the next sweep or at the end.
func TestRemovalFails(t *testing.T) {
	var stubborn atomic.Bool
	e, _ := newProcesses(t)
	host := fakeEngine(t, map[string]http.HandlerFunc{
		"/containers/create": e.create, "/containers/json": e.list, "/images/fake/json": imageOK,
		"/containers/": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete && stubborn.Load() {
				say(w, http.StatusInternalServerError, "driver failed to remove root filesystem: device or resource busy")
				return
			}
			e.one(w, r)
		},
	})
	b, err := docker.Open(t.Context(), docker.Config{Host: host, Image: "fake", Slotd: builtServer(t)}, docker.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	var boxes []backends.Sandbox
	for range 3 {
		x, err := b.Open(t.Context(), backends.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, x)
	}
	stubborn.Store(true)
	for _, x := range boxes {
		if err := x.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "device or resource busy") {
			t.Errorf("close: %v", err)
		}
		if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrClosed) {
			t.Errorf("exec in a box whose close failed: %v", err)
		}
	}
	if n, err := b.Sweep(t.Context()); n != 0 || err == nil {
		t.Errorf("a sweep without success: %d, %v", n, err)
	}
	stubborn.Store(false)
	if err := boxes[0].Close(t.Context()); err != nil {
		t.Errorf("close again: %v", err)
	}
	if n := len(e.names()); n != 2 {
		t.Errorf("%d containers, want 2", n)
	}
	if n, err := b.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	stubborn.Store(true)
	x.Close(t.Context())
	if err := b.Close(t.Context()); err == nil {
		t.Error("the back-end was closed and did not say what it left")
	}
	stubborn.Store(false)
	if err := b.Close(t.Context()); err != nil || len(e.names()) > 0 {
		t.Errorf("close again: %v, left %q", err, e.names())
	}
}

// TestCreateOutlivesItsCaller: an engine that makes a container after its client has hung
// up makes one that is removed.
func TestCreateOutlivesItsCaller(t *testing.T) {
	e, _ := newProcesses(t)
	ctx, cancel := context.WithCancel(t.Context())
	host := fakeEngine(t, map[string]http.HandlerFunc{
		"/containers/create": func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			cancel()
			select { // a client that hangs up, or is still there
			case <-r.Context().Done():
			case <-time.After(200 * time.Millisecond):
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			e.create(w, r)
		},
		"/containers/": e.one, "/containers/json": e.list, "/images/fake/json": imageOK,
	})
	b, err := docker.Open(t.Context(), docker.Config{Host: host, Image: "fake", Slotd: builtServer(t)}, docker.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(ctx, backends.Spec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if e.made != 1 || len(e.names()) > 0 {
		t.Errorf("%d containers made, left %q", e.made, e.names())
	}
}

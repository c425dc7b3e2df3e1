//go:build linux

package namespace_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/egress"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

func TestProxyEscapes(t *testing.T) {
	w := escapes.NewWorld(t)
	b := open(t, namespace.Config{Egress: egress.Config{Allow: w.Allow}})
	if err := b.Outside(egress.Outside{Resolver: w}); err != nil {
		t.Fatal(err)
	}
	repeats := 1
	if *long {
		repeats = 20
	}
	for range repeats {
		escapes.Proxy(t, b, w)
	}
}

// TestNoProxy: without an allow-list there is no network, and nothing answers in its place.
func TestNoProxy(t *testing.T) {
	b := open(t, namespace.Config{})
	for _, r := range backendtest.Rows() {
		if r.Number == 52 {
			r.Run(t.Context(), t, b, backendtest.Options{})
		}
	}
	x := boxOf(t, b, backends.Spec{})
	if _, out := sh(t, x, "env | grep -i proxy; exec 3<>/dev/tcp/127.0.0.1/3128 && echo reached"); strings.Contains(out, "reached") ||
		strings.Contains(out, "http://") {
		t.Errorf("%s", out)
	}
}

// TestProxyPrograms: programs find the proxy by their environment, which a task can overrule.
func TestProxyPrograms(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page of "+r.Host) }))
	defer web.Close()
	at := web.Listener.Addr().String()
	b := open(t, namespace.Config{Egress: egress.Config{Allow: []string{at}}})
	if got := b.Traits().Network; got != "allow-list" {
		t.Errorf("traits: %q", got)
	}
	x := boxOf(t, b, backends.Spec{Env: map[string]string{"NO_PROXY": "", "no_proxy": ""}})
	ran := false
	for _, tt := range []struct{ program, command string }{
		{"curl", "curl -sS http://" + at + "/"},
		{"wget", "wget -qO- http://" + at + "/"},
		{"python3", "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://" + at + "/\").read().decode())'"},
	} {
		if _, err := exec.LookPath(tt.program); err != nil {
			continue
		}
		ran = true
		if code, out := sh(t, x, tt.command); code != 0 || out != "page of "+at {
			t.Errorf("%s: code %d, %s", tt.program, code, out)
		}
	}
	if !ran {
		t.Skip("this machine has none of curl, wget, python3")
	}
}

// TestProxyLeavesNothing: the sockets, goroutines and networks of a hundred boxes go with them,
// also of those that were killed from outside.
func TestProxyLeavesNothing(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "well") }))
	defer web.Close()
	b := open(t, namespace.Config{Egress: egress.Config{Allow: []string{web.Listener.Addr().String()}}})
	cycle := func(i int) {
		x := boxOf(t, b, backends.Spec{})
		out := ""
		if r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{
			"bash",
			"-c",
			"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET " + web.URL + "/ HTTP/1.1\r\nHost: x\r\n\r\n' >&3; cat <&3",
		}}); err != nil {
			t.Fatal(err)
		} else {
			out = string(r.Stdout)
		}
		if !strings.HasSuffix(out, "well") {
			t.Fatalf("cycle %d: %s", i, out)
		}
		if i%4 == 0 {
			b.Kill(x.ID())
		}
		if err := x.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		cycle(i)
	}
	b.Settle()
	files, routines := descriptors(t), runtime.NumGoroutine()
	for i := range 50 {
		cycle(i)
	}
	b.Settle()
	web.CloseClientConnections()
	if n := descriptors(t); n > files+10 {
		t.Errorf("%d descriptors, before %d", n, files)
	}
	if n := runtime.NumGoroutine(); n > routines+20 {
		t.Errorf("%d goroutines, before %d", n, routines)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestBadEgress(t *testing.T) {
	_, err := driver.Open(t.Context(), namespace.Config{Egress: egress.Config{Allow: []string{"http://x"}}})
	if err == nil || !strings.Contains(err.Error(), `egress.allow: entry "http://x"`) {
		t.Errorf("%v", err)
	}
}

// listed starts a server for the contract: where the boxes may go, and where not.
func listed(t *testing.T) (good, bad string) {
	t.Helper()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hermes") })
	one, two := httptest.NewServer(answer), httptest.NewServer(answer)
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	return net.JoinHostPort("127.0.0.1", port(one)), net.JoinHostPort("127.0.0.1", port(two))
}

func port(s *httptest.Server) string {
	_, p, _ := net.SplitHostPort(s.Listener.Addr().String())
	return p
}

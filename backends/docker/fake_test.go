//go:build linux

package docker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"hermes/backends"
	"hermes/backends/docker"
)

// fakeEngine answers on a unix socket as an engine does; more adds calls.
func fakeEngine(t *testing.T, more map[string]http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hermes-fake-") // short: a socket's path ends at 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]http.HandlerFunc{
		"/_ping": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") },
		"/info": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"ServerVersion":"fake","OSType":"linux","Driver":"vfs","MemoryLimit":true}`)
		},
		"/version":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		"/containers/json": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) },
		"/images/json":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) },
	}
	for k, f := range more {
		calls[k] = f
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if rest, ok := strings.CutPrefix(path, "/v1.41"); ok {
			path = rest
		}
		f := calls[path]
		if f == nil && strings.HasPrefix(path, "/containers/") {
			f = calls["/containers/"] // calls about one
		}
		if f == nil && strings.HasPrefix(path, "/images/") {
			f = calls["/images/"]
		}
		if f != nil {
			f(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"No such image: %s"}`, path)
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return "unix://" + l.Addr().String()
}

// openFake opens a back-end on it.
func openFake(t *testing.T, host, config string) *docker.Backend {
	t.Helper()
	b, err := docker.Open(t.Context(), docker.Config{
		Host:  host,
		Slotd: builtServer(t),
	}, docker.Surroundings{ConfigDir: config, Tell: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(t.Context()) })
	return b
}

func TestPull(t *testing.T) {
	var auth atomic.Value
	host := fakeEngine(t, map[string]http.HandlerFunc{
		"/images/create": func(w http.ResponseWriter, r *http.Request) {
			raw, _ := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
			auth.Store(string(raw))
			fmt.Fprint(w, `{"status":"Pulling"}{"id":"a","progressDetail":{"current":1,"total":2}}{"errorDetail":{"message":"manifest unknown"}}`)
		},
		"/images/other:arch/json": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"Os":"linux","Architecture":"s390x"}`) },
	})
	config := t.TempDir()
	secret := base64.StdEncoding.EncodeToString([]byte("me:pass"))
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(`{"auths":{"https://registry.example/v2/":{"auth":"`+secret+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openFake(t, host, config)
	_, err := b.Open(t.Context(), backends.Spec{Image: "registry.example/team/image:1"})
	if !errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), "manifest unknown") {
		t.Errorf("an error inside the answer: %v", err)
	}
	if got, _ := auth.Load().(string); !strings.Contains(got, `"username":"me"`) || !strings.Contains(got, `"password":"pass"`) {
		t.Errorf("credentials sent: %s", got)
	}
	if _, err := b.Open(t.Context(), backends.Spec{Image: "elsewhere/image"}); !errors.Is(err, backends.ErrImage) {
		t.Error(err)
	}
	if got, _ := auth.Load().(string); strings.Contains(got, "pass") {
		t.Errorf("another registry got %s", got)
	}
	_, err = b.Open(t.Context(), backends.Spec{Image: "other:arch"})
	if !errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), "it is for linux/s390x") {
		t.Errorf("another architecture: %v", err)
	}
	if _, err := b.Open(t.Context(), backends.Spec{Image: "Not An Image"}); !errors.Is(err, backends.ErrImage) {
		t.Errorf("not a name: %v", err)
	}
}

// TestBuildFails: the error of a build repeats the end of what it printed. A build or a pull
// that the engine broke off is not the fault of the image. An image for another architecture is
// a bad image.
func TestBuildFails(t *testing.T) {
	var answer atomic.Value
	broken := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"stream":"half`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	host := fakeEngine(t, map[string]http.HandlerFunc{
		"/build":         func(w http.ResponseWriter, r *http.Request) { answer.Load().(http.HandlerFunc)(w, r) },
		"/images/create": broken,
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := openFake(t, host, t.TempDir())
	answer.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 3000 {
			fmt.Fprint(w, `{"stream":"a line of a long build that goes well\n"}`)
		}
		fmt.Fprint(w, `{"stream":"the cause\n"}{"errorDetail":{"message":"code 3"}}`)
	}))
	_, err := b.Open(t.Context(), backends.Spec{Image: "dockerfile:" + dir})
	if !errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), "code 3") || !strings.HasSuffix(err.Error(), "the cause") ||
		len(err.Error()) > 3000 {
		t.Errorf("a build that fails: %v", err)
	}
	answer.Store(http.HandlerFunc(broken))
	for _, image := range []string{"dockerfile:" + dir, "some/image"} {
		if _, err := b.Open(t.Context(), backends.Spec{Image: image}); err == nil || errors.Is(err, backends.ErrImage) ||
			!strings.Contains(err.Error(), "broke off") {
			t.Errorf("%s and an engine that goes away: %v", image, err)
		}
	}
	var built atomic.Bool
	answer.Store(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { built.Store(true) }))
	host = fakeEngine(t, map[string]http.HandlerFunc{
		"/build": func(w http.ResponseWriter, r *http.Request) { answer.Load().(http.HandlerFunc)(w, r) },
		"/images/": func(w http.ResponseWriter, r *http.Request) {
			if !built.Load() {
				say(w, http.StatusNotFound, "No such image")
				return
			}
			fmt.Fprint(w, `{"Os":"linux","Architecture":"s390x"}`)
		},
	})
	if _, err := openFake(t, host, t.TempDir()).Open(t.Context(), backends.Spec{Image: "dockerfile:" + dir}); !errors.Is(err, backends.ErrImage) ||
		!strings.Contains(err.Error(), "it is for linux/s390x") {
		t.Errorf("built for another architecture: %v", err)
	}
}

// connectArg makes this test's program say what opening an engine gives.
const connectArg = "connect"

func connect(host string) int {
	_, err := docker.Open(context.Background(), docker.Config{Host: host}, docker.Surroundings{})
	fmt.Println(err)
	if errors.Is(err, backends.ErrUnavailable) {
		return 0
	}
	return 1
}

func TestNoPermission(t *testing.T) {
	host := fakeEngine(t, nil)
	path := strings.TrimPrefix(host, "unix://")
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("becoming a user without permission needs root")
	}
	cmd := exec.Command("/proc/self/exe", connectArg, host)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no permission on the socket") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNoEngine: what to do is said where no engine answers.
func TestNoEngine(t *testing.T) {
	for _, c := range []docker.Config{{Host: "unix://" + filepath.Join(t.TempDir(), "no")}, {Host: "tcp://127.0.0.1:1"}} {
		_, err := docker.Open(t.Context(), c, docker.Surroundings{})
		if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), c.Host) {
			t.Errorf("%s: %v", c.Host, err)
		}
	}
}

// TestQuota: an engine that gives us no more says so to the caller, and nothing is left.
func TestQuota(t *testing.T) {
	b := openFake(t, fakeEngine(t, map[string]http.HandlerFunc{
		"/images/fake/json": imageOK,
		"/containers/create": func(w http.ResponseWriter, _ *http.Request) {
			say(w, http.StatusInsufficientStorage, "quota exceeded: no more containers for this account")
		},
	}), t.TempDir())
	_, err := b.Open(t.Context(), backends.Spec{Image: "fake"})
	if err == nil || errors.Is(err, backends.ErrLost) || !strings.Contains(err.Error(), "quota exceeded") {
		t.Errorf("%v", err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnusableSettings: what the engine does not have is found before any box is asked for.
func TestUnusableSettings(t *testing.T) {
	host := fakeEngine(t, map[string]http.HandlerFunc{
		"/info": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"ServerVersion":"fake","OSType":"linux","Driver":"vfs","MemoryLimit":true,"Runtimes":{"runc":{},"runsc":{}}}`)
		},
		"/networks": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"Name":"mine"},{"Name":"bridge"}]`) },
		"/networks/mine": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"Name":"mine"}`)
		},
	})
	for _, tt := range []struct {
		conf docker.Config
		want string
	}{
		{docker.Config{Network: "yours"}, `network "yours": the engine has none of that name (have bridge, mine)`},
		{docker.Config{Network: "mine"}, ""},
		{docker.Config{Runtime: "kata"}, `runtime "kata": the engine has none of that name (have runc, runsc)`},
		{docker.Config{Runtime: "runsc"}, ""},
		{docker.Config{Limits: docker.Limits{Disk: 1 << 30}}, "limits.disk: the engine's storage driver vfs cannot limit disk"},
		{docker.Config{Limits: docker.Limits{Disk: 1 << 30}, ReadOnly: true}, ""},
	} {
		tt.conf.Host, tt.conf.Slotd = host, builtServer(t)
		b, err := docker.Open(t.Context(), tt.conf, docker.Surroundings{})
		if err == nil {
			b.Close(t.Context())
		}
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.conf, err, tt.want)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]docker.Config{
		"pull":     {Pull: "sometimes"},
		"inject":   {Inject: "magic"},
		"network":  {Network: "host"},
		"home":     {Home: "x"},
		"user":     {User: "root"},
		"memory":   {Limits: docker.Limits{Memory: 1}},
		"creates":  {Creates: -1},
		"unix:///": {Host: "ssh://somewhere"},
	} {
		if _, err := docker.Open(t.Context(), c, docker.Surroundings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

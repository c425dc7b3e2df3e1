package doctor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/configs"
	"hermes/internal/doctor"
)

// TestMain is the first process of a box when this program is started as one.
func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// healthy are probes of a machine that has everything.
func healthy() doctor.Probes {
	return doctor.Probes{
		Namespaces: func(context.Context) (string, error) { return "yes", nil },
		Cgroup:     func() (string, error) { return "v2", nil },
		Limits: func(context.Context) ([]doctor.Limit, error) {
			return []doctor.Limit{{Name: "memory", Holds: true}}, nil
		},
		Ping:  func(_ context.Context, socket string) (string, error) { return socket, nil },
		Find:  func(p string) (string, error) { return "/usr/bin/" + p, nil },
		Modal: func() (string, error) { return "set", nil },
		Files: func(string) (string, error) { return "works", nil },
		Space: func(string) (int64, error) { return 1e12, nil },
	}
}

func TestVerdicts(t *testing.T) {
	no := errors.New("not here")
	noBoxes := func(p *doctor.Probes) {
		p.Namespaces = func(context.Context) (string, error) { return "", no }
		p.Ping = func(context.Context, string) (string, error) { return "", no }
		p.Find = func(string) (string, error) { return "", no }
	}
	tests := []struct {
		name   string
		spoil  func(*doctor.Probes)
		check  string
		status doctor.Status
		ok     bool
	}{
		{"all there", func(*doctor.Probes) {}, "boxes", doctor.OK, true},
		{
			"no namespaces, but docker",
			func(p *doctor.Probes) { p.Namespaces = func(context.Context) (string, error) { return "", no } },
			"namespaces",
			doctor.Missing,
			true,
		},
		{"no box at all", noBoxes, "boxes", doctor.Fail, false},
		{"no python", func(p *doctor.Probes) { p.Find = func(string) (string, error) { return "", no } }, "python3", doctor.Missing, true},
		{"no token", func(p *doctor.Probes) { p.Modal = func() (string, error) { return "", no } }, "modal", doctor.Missing, true},
		{"no cgroup", func(p *doctor.Probes) { p.Cgroup = func() (string, error) { return "", no } }, "cgroup", doctor.Missing, true},
		{"a limit that does not hold", func(p *doctor.Probes) {
			p.Limits = func(context.Context) ([]doctor.Limit, error) {
				return []doctor.Limit{{Name: "memory", Holds: true}, {Name: "processes"}}, nil
			}
		}, "limits", doctor.Warn, true},
		{
			"no box to try limits in",
			func(p *doctor.Probes) { p.Limits = func(context.Context) ([]doctor.Limit, error) { return nil, no } },
			"limits",
			doctor.Missing,
			true,
		},
		{
			"no locks",
			func(p *doctor.Probes) { p.Files = func(string) (string, error) { return "", errors.New("flock: no") } },
			"run folder",
			doctor.Fail,
			false,
		},
		{"little space", func(p *doctor.Probes) { p.Space = func(string) (int64, error) { return 500 << 20, nil } }, "disk space", doctor.Warn, true},
		{"no space", func(p *doctor.Probes) { p.Space = func(string) (int64, error) { return 1 << 20, nil } }, "disk space", doctor.Fail, false},
		{"space unknown", func(p *doctor.Probes) { p.Space = func(string) (int64, error) { return 0, no } }, "disk space", doctor.Warn, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := healthy()
			tt.spoil(&p)
			r := doctor.Look(t.Context(), p, doctor.Sockets{Docker: []string{"/d"}, Podman: []string{"/p"}}, "runs")
			if r.OK != tt.ok {
				t.Errorf("ok is %v", r.OK)
			}
			for _, c := range r.Checks {
				if c.Name == tt.check && (c.Status != tt.status || c.Status != doctor.OK && c.Detail == "") {
					t.Errorf("%+v, want %s", c, tt.status)
				}
			}
		})
	}
}

func TestSocketsFromTheEnvironment(t *testing.T) {
	env, err := configs.NewEnv([]string{"DOCKER_HOST=unix:///a/docker.sock", "XDG_RUNTIME_DIR=/run/user/7"})
	if err != nil {
		t.Fatal(err)
	}
	s := doctor.SocketsOf(env)
	if s.Docker[0] != "/a/docker.sock" || s.Podman[0] != "/run/user/7/podman/podman.sock" {
		t.Errorf("%+v", s)
	}
}

// TestMachine uses the real probes where the test decides what they find.
func TestMachine(t *testing.T) {
	bin, data := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "python3"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "readable"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env, err := configs.NewEnv([]string{"PATH=.:" + bin})
	if err != nil {
		t.Fatal(err)
	}
	p := doctor.Machine(env)
	if path, err := p.Find("python3"); err != nil || path != filepath.Join(bin, "python3") {
		t.Errorf("python3: %q, %v", path, err)
	}
	if path, err := p.Find("readable"); err == nil {
		t.Errorf("a file that is no program: %q", path)
	}
	if found, err := p.Files(filepath.Join(data, "not", "yet")); err != nil || !strings.HasPrefix(found, data) {
		t.Errorf("files: %q, %v", found, err)
	}
	if left, _ := os.ReadDir(data); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if found, err := p.Modal(); err == nil || err.Error() != "MODAL_TOKEN_ID is not set" {
		t.Errorf("no token: %q, %v", found, err)
	}
	env, err = configs.NewEnv([]string{"MODAL_TOKEN_ID=ak-1", "MODAL_TOKEN_SECRET=as-1"})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := doctor.Machine(env).Modal(); err != nil || strings.Contains(found, "-1") {
		t.Errorf("a token: %q, %v", found, err)
	}
	if free, err := p.Space(data); err != nil || free <= 0 {
		t.Errorf("space: %d, %v", free, err)
	}
}

func TestPing(t *testing.T) {
	p := doctor.Machine(configs.Env{})
	socket := filepath.Join(t.TempDir(), "s")
	if _, err := p.Ping(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if r.URL.Path != "/_ping" {
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	if found, err := p.Ping(t.Context(), socket); err != nil || !strings.HasSuffix(found, "API 1.41") {
		t.Errorf("%q, %v", found, err)
	}
	s.Close()
	<-done
}

// groupsMayBeMade tries it without what the doctor uses, in cgroups of version 1.
func groupsMayBeMade() bool {
	for _, controller := range []string{"memory", "pids"} {
		dir, err := os.MkdirTemp("/sys/fs/cgroup/"+controller, "hermes-test-")
		if err != nil || os.Remove(dir) != nil {
			return false
		}
	}
	return true
}

// TestLimitsAreTried: as far as boxes of namespace have cgroups here, what the doctor says of their
// limits is what a box runs into.
func TestLimitsAreTried(t *testing.T) {
	env, err := configs.NewEnv(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	m := doctor.Machine(env)
	if _, err := m.Cgroup(); err != nil {
		if groupsMayBeMade() {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	all, err := m.Limits(t.Context())
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Errorf("%+v", all)
	}
	for _, l := range all {
		if !l.Holds && l.Name != "cores" { // an own group for cores is not everywhere
			t.Errorf("%s does not hold", l.Name)
		}
	}
}

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"hermes/internal/address"
)

// engine is a Docker or podman engine that answered.
type engine struct {
	web     *client.Client
	host    string
	local   bool // its paths are ours: a unix socket
	podman  bool
	version string
	arch    string // as Go names it
	storage string
	quota   bool // disk can be limited
	memory  bool // memory can be limited

	runtimes []string // by name; none: the engine does not say
	warnings []string
}

// connect finds an engine, the configured one or the first of the usual ones.
func connect(ctx context.Context, c Config, at Surroundings) (*engine, error) {
	if host := cmp.Or(c.Host, at.Host); host != "" {
		return dialEngine(ctx, host, cmp.Or(c.Certs, at.Certs))
	}
	var tried []string
	for _, path := range usualSockets(at.RuntimeDir) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			tried = append(tried, path)
			continue
		}
		return dialEngine(ctx, "unix://"+path, "")
	}
	return nil, fmt.Errorf("no engine is named (DOCKER_HOST, or host in the section backends.docker) and there is no socket at %s", strings.Join(tried, ", "))
}

// usualSockets are where engines listen.
func usualSockets(runtimeDir string) []string {
	paths := []string{"/var/run/docker.sock"}
	if runtimeDir != "" {
		paths = append(paths, runtimeDir+"/docker.sock", runtimeDir+"/podman/podman.sock")
	}
	return append(paths, "/run/podman/podman.sock")
}

// dialEngine asks one engine what it is.
func dialEngine(ctx context.Context, host, certs string) (*engine, error) {
	if err := address.CheckURL("DOCKER_HOST", host); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	kind, address, _ := strings.Cut(host, "://")
	if kind != "unix" && kind != "tcp" || address == "" {
		return nil, fmt.Errorf("engine %q: want unix:///PATH or tcp://HOST:PORT", host)
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, CheckRedirect: client.CheckRedirect}
	opts := []client.Opt{client.WithHTTPClient(web), client.WithHost(host), client.WithAPIVersionNegotiation()}
	if kind == "tcp" && certs != "" {
		opts = append(opts, client.WithTLSClientConfig(filepath.Join(certs, "ca.pem"), filepath.Join(certs, "cert.pem"), filepath.Join(certs, "key.pem")))
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", host, err)
	}
	info, err := ask(ctx, cli)
	if err != nil {
		cli.Close()
		return nil, fmt.Errorf("engine %s: %w", host, explain(err, address))
	}
	e := &engine{web: cli, host: host, local: kind == "unix", version: info.ServerVersion, arch: goArch(info.Architecture), storage: info.Driver, memory: info.MemoryLimit,
		runtimes: slices.Sorted(maps.Keys(info.Runtimes))}
	if info.OSType != "" && info.OSType != "linux" {
		cli.Close()
		return nil, fmt.Errorf("engine %s makes containers of %s, not of linux", host, info.OSType)
	}
	e.look(ctx, info)
	return e, nil
}

// ask waits for the engine's answer, longer than a busy engine takes.
func ask(ctx context.Context, web *client.Client) (system.Info, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no answer within a minute"))
	defer cancel()
	info, err := web.Info(ctx)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return info, err
}

// look learns what the engine can limit.
func (e *engine) look(ctx context.Context, info system.Info) {
	if e.version == "" {
		e.version = "of unknown version"
	}
	if v, err := e.web.ServerVersion(ctx); err == nil {
		for _, c := range v.Components {
			e.podman = e.podman || strings.Contains(strings.ToLower(c.Name), "podman")
		}
	}
	for _, s := range info.DriverStatus {
		if s[0] == "Backing Filesystem" {
			e.quota = strings.HasPrefix(e.storage, "overlay") && s[1] == "xfs"
			e.storage += " on " + s[1]
		}
	}
	switch info.Driver {
	case "btrfs", "zfs", "devicemapper", "windowsfilter":
		e.quota = true
	}
	if !e.podman && !slices.ContainsFunc(info.SecurityOptions, func(s string) bool { return strings.HasPrefix(s, "name=seccomp") }) {
		e.warnings = append(e.warnings, "the engine has no seccomp filter")
	}
	if !info.PidsLimit {
		e.warnings = append(e.warnings, "the engine cannot limit processes")
	}
}

// can reports which settings the engine cannot serve, in words for who wrote them.
func (e *engine) can(ctx context.Context, c Config) error {
	if c.Limits.Disk > 0 && !c.ReadOnly && !e.quota {
		return fmt.Errorf("limits.disk: %w", e.noQuota())
	}
	if c.Runtime != "" && len(e.runtimes) > 0 && !slices.Contains(e.runtimes, c.Runtime) {
		return fmt.Errorf("runtime %q: the engine has none of that name (have %s)", c.Runtime, strings.Join(e.runtimes, ", "))
	}
	if c.Network == "none" {
		return nil
	}
	_, err := e.web.NetworkInspect(ctx, c.Network, network.InspectOptions{})
	if !cerrdefs.IsNotFound(err) {
		return nil // or it is seen when a box begins
	}
	all, err := e.web.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return fmt.Errorf("network %q: the engine has none of that name", c.Network)
	}
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return fmt.Errorf("network %q: the engine has none of that name (have %s)", c.Network, strings.Join(names, ", "))
}

// noQuota says what to do where disk cannot be limited.
func (e *engine) noQuota() error {
	return fmt.Errorf("the engine's storage driver %s cannot limit disk; leave the limit out or set read-only", e.storage)
}

// about is a sentence about the engine for people.
func (e *engine) about() string {
	kind := "Docker"
	if e.podman {
		kind = "podman"
	}
	return fmt.Sprintf("%s %s at %s", kind, e.version, e.host)
}

// explain says what a person can do about an engine that does not answer.
func explain(err error, address string) error {
	if !filepath.IsAbs(address) {
		return err
	}
	c, cause := net.Dial("unix", address)
	switch {
	case cause == nil:
		c.Close()
		return err
	case errors.Is(cause, fs.ErrPermission):
		return fmt.Errorf("no permission on the socket: join its group, or use a rootless engine: %w", cause)
	case errors.Is(cause, fs.ErrNotExist), errors.Is(cause, unix.ECONNREFUSED):
		return fmt.Errorf("no engine listens there; is it running? %w", cause)
	}
	return cause
}

// goArch names an architecture as Go does.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return machine
}

package docker

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/slotd/wire"
)

// Config is the section `backends.docker` of a run file. The zero value is usable.
type Config struct {
	Host     string            `yaml:"host"`      // unix:///PATH or tcp://HOST:PORT; "" means DOCKER_HOST, then the usual sockets of Docker and podman
	Certs    string            `yaml:"certs"`     // folder with ca.pem, cert.pem, key.pem for tcp; "" means DOCKER_CERT_PATH
	Image    string            `yaml:"image"`     // of boxes that name none; "" means debian:12-slim
	Pull     string            `yaml:"pull"`      // missing (the default), always (once a process), never
	Limits   Limits            `yaml:"limits"`    // of boxes that set none
	Network  string            `yaml:"network"`   // none (the default), or the name of a network of the engine
	Egress   egress.Config     `yaml:"egress"`    // what boxes may connect to, by a proxy; network none only
	Home     string            `yaml:"home"`      // of commands; "" means the image's HOME
	User     string            `yaml:"user"`      // UID:GID of commands; "" means root of the box
	ReadOnly bool              `yaml:"read-only"` // root read-only; home, /tmp, /var/tmp and /run in memory, together of the disk limit
	Runtime  string            `yaml:"runtime"`   // of the engine, such as runsc; "" means its default
	Env      map[string]string `yaml:"env"`       // of every command
	Inject   string            `yaml:"inject"`    // how slotd comes in: auto (the default), bind, copy
	Slotd    string            `yaml:"slotd"`     // path of a static slotd for the engine's architecture; "" means this program
	Creates  int               `yaml:"creates"`   // boxes being made at once; 0 means two a core, at least 4 and at most 16
	Build    BuildConfig       `yaml:"build"`
}

// BuildConfig tunes images that are built from a Dockerfile.
type BuildConfig struct {
	Network string            `yaml:"network"` // of RUN steps; "" means the engine's default
	Args    map[string]string `yaml:"args"`    // build arguments
}

// Limits are what a box gets whose Spec does not say otherwise.
type Limits struct {
	Memory    int64   `yaml:"memory"`    // bytes; 0 means 2 GiB
	Processes int     `yaml:"processes"` // processes and threads; 0 means 256
	CPUs      float64 `yaml:"cpus"`      // cores; 0 means all
	Disk      int64   `yaml:"disk"`      // bytes; 0 means no limit, or 1 GiB with read-only
	Files     int     `yaml:"files"`     // open files of a process; 0 means 1,024
	Signals   int     `yaml:"signals"`   // signals that wait, and timers, of all boxes whose commands have the same user; 0 means 4,096
	Queues    int64   `yaml:"queues"`    // bytes of POSIX message queues, of the same boxes; 0 means 409,600
}

// Surroundings are what the driver takes from the environment of hermes. The zero value
// is a machine without any.
type Surroundings struct {
	Host       string // DOCKER_HOST
	Certs      string // DOCKER_CERT_PATH
	ConfigDir  string // DOCKER_CONFIG, or ~/.docker: where config.json with credentials lies
	RuntimeDir string // XDG_RUNTIME_DIR
	Tell       func(text string)
}

func (s Surroundings) say(format string, args ...any) {
	if s.Tell != nil {
		s.Tell(fmt.Sprintf(format, args...))
	}
}

// Check objects to values that cannot work.
func (c Config) Check() error {
	_, err := c.complete()
	return err
}

// complete fills in defaults and refuses what cannot work.
func (c Config) complete() (Config, error) {
	c.Image = cmp.Or(c.Image, "debian:12-slim")
	c.Pull, c.Network, c.Inject = cmp.Or(c.Pull, "missing"), cmp.Or(c.Network, "none"), cmp.Or(c.Inject, "auto")
	c.Creates = cmp.Or(c.Creates, min(max(4, 2*runtime.NumCPU()), 16))
	switch {
	case c.Pull != "missing" && c.Pull != "always" && c.Pull != "never":
		return c, fmt.Errorf("pull %q: none of missing, always, never", c.Pull)
	case c.Inject != "auto" && c.Inject != "bind" && c.Inject != "copy":
		return c, fmt.Errorf("inject %q: none of auto, bind, copy", c.Inject)
	case c.Network == "host" || strings.HasPrefix(c.Network, "container:"):
		return c, fmt.Errorf("network %q: boxes do not share the network of the host or of another container", c.Network)
	case c.Egress.On() && c.Network != "none":
		return c, fmt.Errorf("egress: boxes with the network %q need no proxy, and could go around it; set network: none", c.Network)
	case c.Egress.On() && c.Inject == "copy":
		return c, fmt.Errorf("egress: the proxy answers on a socket that the box hands out, which works on this machine only: not with inject: copy")
	case c.Creates < 0:
		return c, fmt.Errorf("creates: %d is negative", c.Creates)
	case c.Home != "" && (!filepath.IsAbs(c.Home) || filepath.Clean(c.Home) != c.Home || c.Home == "/"):
		return c, fmt.Errorf("home %q is not a clean absolute path below /", c.Home)
	case c.ReadOnly && c.Inject == "copy":
		return c, fmt.Errorf("read-only: slotd cannot be copied into a root that is read-only")
	}
	if err := c.Egress.Check(); err != nil {
		return c, err
	}
	if _, err := c.user(); err != nil {
		return c, err
	}
	l := Limits{Memory: 2 << 30, Processes: 256, Files: 1024}
	if c.ReadOnly {
		l.Disk = 1 << 30
	}
	l.CPUs, l.Files = c.Limits.CPUs, cmp.Or(c.Limits.Files, l.Files)
	l.Signals, l.Queues = cmp.Or(c.Limits.Signals, 4096), cmp.Or(c.Limits.Queues, 400<<10)
	var err error
	c.Limits, err = l.with(backends.Limits{Memory: c.Limits.Memory, Processes: c.Limits.Processes, CPUs: c.Limits.CPUs, Disk: c.Limits.Disk})
	return c, err
}

// with returns l with the values that o sets.
func (l Limits) with(o backends.Limits) (Limits, error) {
	l.Memory, l.Processes = cmp.Or(o.Memory, l.Memory), cmp.Or(o.Processes, l.Processes)
	l.CPUs, l.Disk = cmp.Or(o.CPUs, l.CPUs), cmp.Or(o.Disk, l.Disk)
	switch {
	case l.Memory < minMemory:
		return l, fmt.Errorf("memory limit of %d bytes is below %d", l.Memory, minMemory)
	case l.Processes < minProcesses:
		return l, fmt.Errorf("limit of %d processes is below %d", l.Processes, minProcesses)
	case l.Disk != 0 && l.Disk < minDisk:
		return l, fmt.Errorf("disk limit of %d bytes is below %d", l.Disk, minDisk)
	case l.Signals < 64 || l.Signals > math.MaxInt32:
		return l, fmt.Errorf("limit signals: %d is not between 64 and %d", l.Signals, math.MaxInt32)
	case l.Queues < 1:
		return l, fmt.Errorf("limit queues: %d is below 1", l.Queues)
	case l.CPUs < 0 || l.Files < 0:
		return l, fmt.Errorf("limits of %g cores and %d open files: negative", l.CPUs, l.Files)
	}
	return l, nil
}

// user reads Config.User.
func (c Config) user() (*wire.User, error) {
	if c.User == "" {
		return nil, nil
	}
	u, g, _ := strings.Cut(c.User, ":")
	uid, err1 := strconv.ParseUint(u, 10, 31)
	gid, err2 := strconv.ParseUint(g, 10, 31)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("user %q is not UID:GID", c.User)
	}
	return &wire.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

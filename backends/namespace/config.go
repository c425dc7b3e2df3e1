package namespace

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"

	"hermes/backends/egress"
	"hermes/backends/namespace/unpack"
)

// Config is the section `backends.namespace` of a run file. The zero value is usable.
type Config struct {
	Root     string        `yaml:"root"`      // "host" (the default), or an image: a directory, a tar or an OCI image layout of this machine
	Store    string        `yaml:"store"`     // where tars and layouts are unpacked; empty: hermes/images in the user's cache folder
	ReadOnly []string      `yaml:"read-only"` // more directories of the host, shown read-only at the same path
	Limits   Limits        `yaml:"limits"`
	Home     string        `yaml:"home"`   // of commands; "" means /root
	Cgroup   string        `yaml:"cgroup"` // "auto" (the default) or "off"
	Egress   egress.Config `yaml:"egress"` // what boxes may connect to, by a proxy; nothing where it is empty
	Resets   bool          `yaml:"resets"` // boxes can be reset, which costs each a few milliseconds at its start

	program string // of the helper that clones boxes; empty: the one that is built in
}

// Limits are what a box gets whose Spec does not say otherwise.
type Limits struct {
	Memory    int64   `yaml:"memory"`    // bytes; 0 means 2 GiB
	Processes int     `yaml:"processes"` // processes and threads; 0 means 256
	CPUs      float64 `yaml:"cpus"`      // cores; 0 means all
	Disk      int64   `yaml:"disk"`      // bytes written anywhere in the box, kept in memory; 0 means 1 GiB
	Files     int     `yaml:"files"`     // open files of a process; 0 means 1,024
	Inotify   int     `yaml:"inotify"`   // inotify instances; 0 means 32, or what a box may take of its user's
	Watches   int     `yaml:"watches"`   // inotify watches; 0 means 16,384, or what a box may take of its user's
	Terminals int     `yaml:"terminals"` // pseudo-terminals; 0 means 32
	Signals   int     `yaml:"signals"`   // signals that wait, and timers; 0 means 1,024
	Queues    int64   `yaml:"queues"`    // bytes of POSIX message queues; 0 means 204,800
	Sockets   int64   `yaml:"sockets"`   // bytes in the buffers of network sockets; 0 means 64 MiB
	off       bool    // no cgroups
}

// Name is the back-end's name in configuration and traits.
const Name = "namespace"

// hostRoot names the root made of the host's own programs.
const hostRoot = "host"

// The smallest limits with which a box can work at all.
const (
	minMemory    = 16 << 20
	minProcesses = 16
	minDisk      = 1 << 20
)

// Check objects to values that cannot work.
func (c Config) Check() error {
	_, err := c.complete()
	return err
}

// complete fills in defaults and refuses what cannot work.
func (c Config) complete() (Config, error) {
	if c.Root == "" {
		c.Root = hostRoot
	}
	if c.Root != hostRoot && !unpack.IsRef(c.Root) {
		return c, fmt.Errorf("root %q: neither %q nor %s", c.Root, hostRoot, unpack.Forms)
	}
	if c.Store != "" {
		if err := checkPath(c.Store); err != nil {
			return c, fmt.Errorf("store: %w", err)
		}
	}
	if c.Home == "" {
		c.Home = "/root"
	}
	for _, p := range append([]string{c.Home}, c.ReadOnly...) {
		if err := checkPath(p); err != nil {
			return c, fmt.Errorf("of the box: %w", err)
		}
	}
	if err := c.Egress.Check(); err != nil {
		return c, err
	}
	switch c.Cgroup {
	case "", "auto":
	case "off":
		c.Limits.off = true
	default:
		return c, fmt.Errorf("cgroup %q: neither auto nor off", c.Cgroup)
	}
	l := Limits{Memory: 2 << 30, Processes: 256, Disk: 1 << 30, Files: 1024, Terminals: 32, Signals: 1024, Queues: 200 << 10, Sockets: 64 << 20, off: c.Limits.off}
	l.Inotify, l.Watches = 32, 16384
	var err error
	c.Limits, err = l.with(c.Limits)
	return c, err
}

func checkPath(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
		return fmt.Errorf("path %q is not a clean absolute path below /", p)
	}
	return nil
}

// with returns l with the values that o sets.
func (l Limits) with(o Limits) (Limits, error) {
	if o.Memory != 0 {
		l.Memory = o.Memory
	}
	if o.Processes != 0 {
		l.Processes = o.Processes
	}
	if o.CPUs != 0 {
		l.CPUs = o.CPUs
	}
	if o.Disk != 0 {
		l.Disk = o.Disk
	}
	if o.Files != 0 {
		l.Files = o.Files
	}
	l.Inotify, l.Watches, l.Terminals = cmp.Or(o.Inotify, l.Inotify), cmp.Or(o.Watches, l.Watches), cmp.Or(o.Terminals, l.Terminals)
	l.Signals, l.Queues, l.Sockets = cmp.Or(o.Signals, l.Signals), cmp.Or(o.Queues, l.Queues), cmp.Or(o.Sockets, l.Sockets)
	switch {
	case l.Memory < minMemory:
		return l, fmt.Errorf("memory limit of %d bytes is below %d", l.Memory, minMemory)
	case l.Processes < minProcesses:
		return l, fmt.Errorf("limit of %d processes is below %d", l.Processes, minProcesses)
	case l.Disk < minDisk:
		return l, fmt.Errorf("disk limit of %d bytes is below %d", l.Disk, minDisk)
	case l.CPUs < 0 || l.Files < 0:
		return l, fmt.Errorf("limits of %g cores and %d open files: negative", l.CPUs, l.Files)
	}
	return l, l.small()
}

// small objects to the limits on what a box takes of the kernel when they are too small to work with, or more
// than a kernel counts.
func (l Limits) small() error {
	for _, x := range []struct {
		key        string
		value, low int64
	}{
		{"inotify", int64(l.Inotify), 1}, {"watches", int64(l.Watches), 1}, {"terminals", int64(l.Terminals), 1},
		{"signals", int64(l.Signals), 64}, {"queues", l.Queues, 1}, {"sockets", l.Sockets, 1 << 20},
	} {
		if x.value < x.low {
			return fmt.Errorf("limit %s: %d is below %d", x.key, x.value, x.low)
		}
		if most := int64(math.MaxInt32); x.key != "queues" && x.key != "sockets" && x.value > most {
			return fmt.Errorf("limit %s: %d is above %d", x.key, x.value, most)
		}
	}
	return nil
}

package singularity

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/backends"
)

// Config is the section `backends.singularity` of a run file. The zero value is usable.
type Config struct {
	Program  string            `yaml:"program"`   // empty: apptainer, else singularity, from PATH
	Image    string            `yaml:"image"`     // of boxes that name none; empty: docker://debian:12-slim
	Pull     string            `yaml:"pull"`      // missing (the default), always: once a process, never
	Cache    string            `yaml:"cache"`     // of images as SIF files; empty: hermes/sif in the user's cache folder
	Dir      string            `yaml:"dir"`       // where the homes and scratch folders of boxes are; empty: the folder for temporary files
	Root     string            `yaml:"root"`      // tmpfs (the default): changes of the root are in memory; overlay: in dir; read-only
	ReadOnly []string          `yaml:"read-only"` // paths of the host, shown read-only at the same path
	Fakeroot bool              `yaml:"fakeroot"`  // commands are root of the box; needs a subuid range or user namespaces
	Limits   Limits            `yaml:"limits"`
	Home     string            `yaml:"home"`   // of commands; empty: /home/hermes
	Env      map[string]string `yaml:"env"`    // of every command
	Slotd    string            `yaml:"slotd"`  // program to bring in; empty: the one inside of hermes
	Starts   int               `yaml:"starts"` // boxes being started at once; 0: 4
}

// Limits are handed to the program, which enforces them by cgroups; 0: not limited.
type Limits struct {
	Memory    int64   `yaml:"memory"`    // bytes
	Processes int     `yaml:"processes"` // processes and threads
	CPUs      float64 `yaml:"cpus"`      // cores
}

// The forms of a root.
const (
	rootTmpfs    = "tmpfs"
	rootOverlay  = "overlay"
	rootReadOnly = "read-only"
)

const defaultImage = "docker://debian:12-slim"

// complete fills in defaults and refuses what cannot work.
func (c Config) complete() (Config, error) {
	c.Image, c.Pull, c.Root = cmp.Or(c.Image, defaultImage), cmp.Or(c.Pull, "missing"), cmp.Or(c.Root, rootTmpfs)
	c.Home, c.Starts, c.Dir = cmp.Or(c.Home, "/home/hermes"), cmp.Or(c.Starts, 4), cmp.Or(c.Dir, os.TempDir())
	if c.Cache == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return c, fmt.Errorf("no place for images (set cache): %w", err)
		}
		c.Cache = filepath.Join(cache, "hermes", "sif")
	}
	if !slices.Contains([]string{"missing", "always", "never"}, c.Pull) {
		return c, fmt.Errorf("pull %q: none of missing, always, never", c.Pull)
	}
	if !slices.Contains([]string{rootTmpfs, rootOverlay, rootReadOnly}, c.Root) {
		return c, fmt.Errorf("root %q: none of %s, %s, %s", c.Root, rootTmpfs, rootOverlay, rootReadOnly)
	}
	for _, p := range append([]string{c.Home, c.Dir, c.Cache}, c.ReadOnly...) {
		if err := checkPath(p); err != nil {
			return c, err
		}
	}
	if c.Starts < 0 {
		return c, fmt.Errorf("starts: %d is negative", c.Starts)
	}
	_, err := c.Limits.with(backends.Limits{})
	return c, err
}

// checkPath refuses what the program's command line cannot say: it splits mounts at
// commas and colons.
func checkPath(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" || strings.ContainsAny(p, ",:\n") {
		return fmt.Errorf("path %q is not a clean absolute path below / without comma and colon", p)
	}
	return nil
}

// with returns l with the values that a Spec sets.
func (l Limits) with(s backends.Limits) (Limits, error) {
	l.Memory, l.Processes, l.CPUs = cmp.Or(s.Memory, l.Memory), cmp.Or(s.Processes, l.Processes), cmp.Or(s.CPUs, l.CPUs)
	switch {
	case s.Disk > 0:
		return l, fmt.Errorf("a limit of %d bytes of disk: singularity has none; leave it out", s.Disk)
	case l.Memory < 0 || l.Processes < 0 || l.CPUs < 0:
		return l, fmt.Errorf("limits of %d bytes, %d processes and %g cores: negative", l.Memory, l.Processes, l.CPUs)
	case l.Memory > 0 && l.Memory < 32<<20:
		return l, fmt.Errorf("memory limit of %d bytes is below %d", l.Memory, 32<<20)
	case l.Processes > 0 && l.Processes < 16:
		return l, fmt.Errorf("limit of %d processes is below 16", l.Processes)
	}
	return l, nil
}

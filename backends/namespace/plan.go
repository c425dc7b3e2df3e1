//go:build linux

package namespace

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/namespace/unpack"
)

// plan is what a box is to be.
type plan struct {
	Image    bool   // the root's mount comes as a descriptor, or from ImageDir
	ImageDir string // opened by the box itself; "" when the descriptor was passed
	ReadOnly []string
	Home     string
	Dir      string
	Env      map[string]string
	Limits   Limits
	ByRlimit bool // memory has no cgroup
	Resets   bool
	Proxy    bool     // a socket for the proxy is handed out
	Network  []string // that the task wants no more than
}

// plan turns a Spec and the image that it means into what the box must do.
func (c Config) plan(s backends.Spec, image unpack.Image) (plan, error) {
	own, err := c.Limits.with(Limits{Memory: s.Limits.Memory, Processes: s.Limits.Processes, CPUs: s.Limits.CPUs, Disk: s.Limits.Disk})
	if err != nil {
		return plan{}, fmt.Errorf("open a box: %w", err)
	}
	p := plan{Resets: c.Resets, ReadOnly: c.ReadOnly, Home: c.Home, Dir: cmp.Or(s.Dir, image.Dir, c.Home), Env: s.Env, Limits: own, Proxy: c.Egress.On() && (s.Network == nil || len(s.Network) > 0), Network: s.Network,
		Image: image.Root != "", ImageDir: image.Root}
	if p.Proxy || len(image.Env) > 0 {
		p.Env = maps.Clone(image.Env)
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		delete(p.Env, "HOME") // of a user that boxes do not have
		if p.Proxy {
			maps.Copy(p.Env, egress.Env())
		}
		maps.Copy(p.Env, s.Env)
	}
	if !filepath.IsAbs(p.Dir) {
		p.Dir = filepath.Join(c.Home, p.Dir)
	}
	return p, nil
}

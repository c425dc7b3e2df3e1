// Package doctor looks at what a machine offers to hermes: ways to make boxes, the file
// system of run directories, helpers. A check never changes anything but a temporary
// folder that it removes.
//
// What is looked at comes in as [Probes], so that every verdict can be tested on any
// machine. Nothing here is kept between calls.
package doctor

import (
	"context"
	"fmt"
	"strings"

	"hermes/configs"
)

// Status is the verdict of one check.
type Status string

// The verdicts. Fail means that hermes cannot work; Missing that one way of working is
// closed.
const (
	OK      Status = "ok"
	Missing Status = "missing"
	Warn    Status = "warn"
	Fail    Status = "fail"
)

// Check is the result of one look.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`           // what was found
	Advice string `json:"advice,omitempty"` // what to do about it
}

// Report is all checks, in the order of looking.
type Report struct {
	OK     bool    `json:"ok"` // no check failed
	Checks []Check `json:"checks"`
}

// Probes are the looks themselves; each returns what it found as a sentence.
type Probes struct {
	Namespaces func(ctx context.Context) (string, error)                // a process in fresh user, mount and pid namespaces
	Cgroup     func() (string, error)                                   // groups that boxes get
	Limits     func(ctx context.Context) ([]Limit, error)               // limits of a box, each run into
	Ping       func(ctx context.Context, socket string) (string, error) // an engine that answers on a socket
	Find       func(program string) (string, error)                     // a program on the PATH
	Modal      func() (string, error)                                   // a token for Modal; the service is not asked whether it is good
	Files      func(dir string) (string, error)                         // write, fsync, rename, flock in dir
	Space      func(dir string) (free int64, err error)                 // bytes that we may still write
}

// Sockets are where the engines listen on this machine.
type Sockets struct{ Docker, Podman []string }

// SocketsOf lists where engines may listen, from the environment alone, the most likely
// first.
func SocketsOf(env configs.Env) Sockets {
	var s Sockets
	if path, ok := strings.CutPrefix(env.Get("DOCKER_HOST"), "unix://"); ok {
		s.Docker = append(s.Docker, path)
	}
	s.Docker = append(s.Docker, "/var/run/docker.sock")
	if path, ok := strings.CutPrefix(env.Get("CONTAINER_HOST"), "unix://"); ok {
		s.Podman = append(s.Podman, path)
	}
	if dir := env.Get("XDG_RUNTIME_DIR"); dir != "" {
		s.Podman = append(s.Podman, dir+"/podman/podman.sock")
	}
	s.Podman = append(s.Podman, "/run/podman/podman.sock")
	return s
}

// Look makes all checks. dir is where run directories would be written.
func Look(ctx context.Context, p Probes, s Sockets, dir string) Report {
	boxes := []Check{
		simple("namespaces", "unprivileged user namespaces are off: ask for kernel.unprivileged_userns_clone=1 or the AppArmor rule of your distribution")(p.Namespaces(ctx)),
		engine(ctx, p, "docker", s.Docker),
		engine(ctx, p, "podman", s.Podman),
		program(p, "apptainer", "apptainer", "singularity"),
	}
	checks := append(boxes, boxVerdict(boxes),
		simple("modal", "only --backend modal needs it: set both, or name others in the section backends.modal")(p.Modal()),
		simple("cgroup", "boxes of namespace have the rlimits of their processes and no common bound: run as root, or delegate a cgroup v2 subtree")(p.Cgroup()),
		limits(p.Limits(ctx)),
		program(p, "python3", "python3"))
	files, err := p.Files(dir)
	fc := simple("run folder", "use a folder on a local file system that you may write: --out DIR")(files, err)
	if err != nil {
		fc.Status = Fail
	}
	checks = append(checks, fc, space(p, dir))
	r := Report{OK: true, Checks: checks}
	for _, c := range checks {
		r.OK = r.OK && c.Status != Fail
	}
	return r
}

// simple makes a check of a probe's answer; an error is a thing that is missing.
func simple(name, advice string) func(found string, err error) Check {
	return func(found string, err error) Check {
		if err != nil {
			return Check{Name: name, Status: Missing, Detail: err.Error(), Advice: advice}
		}
		return Check{Name: name, Status: OK, Detail: found}
	}
}

func engine(ctx context.Context, p Probes, name string, sockets []string) Check {
	var causes []string
	for _, path := range sockets {
		found, err := p.Ping(ctx, path)
		if err == nil {
			return Check{Name: name, Status: OK, Detail: found}
		}
		causes = append(causes, err.Error())
	}
	return Check{Name: name, Status: Missing, Detail: strings.Join(causes, "; ")}
}

func program(p Probes, name string, programs ...string) Check {
	for _, prog := range programs {
		if path, err := p.Find(prog); err == nil {
			return Check{Name: name, Status: OK, Detail: path}
		}
	}
	return Check{Name: name, Status: Missing, Detail: strings.Join(programs, " or ") + " is not on the PATH"}
}

// boxVerdict fails when no way of making isolated boxes is open.
func boxVerdict(ways []Check) Check {
	var open []string
	for _, w := range ways {
		if w.Status == OK {
			open = append(open, w.Name)
		}
	}
	if len(open) == 0 {
		return Check{Name: "boxes", Status: Fail, Detail: "no isolated box can be made here", Advice: "enable one of the four above"}
	}
	return Check{Name: "boxes", Status: OK, Detail: "by " + strings.Join(open, ", ")}
}

const (
	scarce = 1 << 30   // bytes: a small run still fits
	full   = 100 << 20 // bytes: it does not
)

func space(p Probes, dir string) Check {
	free, err := p.Space(dir)
	c := Check{Name: "disk space", Status: OK, Detail: fmt.Sprintf("%.1f GB free", float64(free)/1e9)}
	switch {
	case err != nil:
		return Check{Name: c.Name, Status: Warn, Detail: err.Error()}
	case free < full:
		c.Status, c.Advice = Fail, "make room, or use --out DIR on another disk"
	case free < scarce:
		c.Status, c.Advice = Warn, "a long run may fill the disk"
	}
	return c
}

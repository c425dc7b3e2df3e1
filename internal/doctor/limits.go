package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

// Limit is one limit of a box that was run into.
type Limit struct {
	Name  string
	Holds bool
}

// The limits of the box that is made to be run into them.
const (
	triedMemory    = 64 << 20
	triedProcesses = 32
	triedCPUs      = 0.25
	triedDisk      = 16 << 20
)

// tryLimits makes a box with small limits and runs a command into each: what holds is what came
// of that, whatever was written where.
func tryLimits(ctx context.Context) (all []Limit, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	b, err := driver.Open(ctx, namespace.Config{Limits: namespace.Limits{Memory: triedMemory, Processes: triedProcesses, Disk: triedDisk}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	for _, l := range []struct {
		name, shell string
		cores       float64
		time        time.Duration
		holds       func(backends.Result) bool
	}{
		// An eighth of it fits, twice as much does not.
		{"memory", "x=$(head -c 8388608 /dev/zero | tr '\\0' x) && echo fits && x=$(head -c 134217728 /dev/zero | tr '\\0' x) && echo beyond", 0, 10 * time.Second,
			func(r backends.Result) bool {
				return strings.HasPrefix(string(r.Stdout), "fits") && !strings.Contains(string(r.Stdout), "beyond")
			}},
		{"processes", "i=0; while [ $i -lt 64 ]; do sleep 5 & i=$((i+1)); done; echo beyond", 0, 4 * time.Second, func(r backends.Result) bool {
			return !strings.Contains(string(r.Stdout), "beyond") && strings.Contains(strings.ToLower(string(r.Stderr)), "fork") // shells say that they cannot
		}},
		{"cores", "while :; do :; done", triedCPUs, time.Second, func(r backends.Result) bool { return r.CPU < r.Took/2 }},
		{"disk", "head -c 33554432 /dev/zero >f && echo beyond", 0, 4 * time.Second, func(r backends.Result) bool { return !strings.Contains(string(r.Stdout), "beyond") }},
	} {
		box, err := b.Open(ctx, backends.Spec{Limits: backends.Limits{CPUs: l.cores}})
		if err != nil {
			return nil, err
		}
		r, err := box.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", l.shell}, Timeout: l.time})
		if err = errors.Join(err, box.Close(context.WithoutCancel(ctx))); err != nil && !errors.Is(err, backends.ErrBroken) {
			return nil, fmt.Errorf("run into the limit of %s: %w", l.name, err)
		}
		all = append(all, Limit{Name: l.name, Holds: err != nil || l.holds(r)})
	}
	return all, nil
}

// limits makes a check of what was run into.
func limits(all []Limit, err error) Check {
	c := Check{Name: "limits", Status: OK}
	if err != nil {
		return Check{Name: c.Name, Status: Missing, Detail: "no box to try them in: " + err.Error()}
	}
	var parts []string
	for _, l := range all {
		word := "holds"
		if !l.Holds {
			word, c.Status = "does NOT hold", Warn
		}
		parts = append(parts, l.Name+" "+word)
	}
	c.Detail = "run into in a box of namespace: " + strings.Join(parts, ", ")
	if c.Status == Warn {
		c.Advice = "one box can take this from all others and from this machine: run as root, delegate a cgroup v2 subtree, or use another back-end"
	}
	return c
}

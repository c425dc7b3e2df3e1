package docker_test

import (
	"context"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
)

// TestAttribution: whose doing the end of a container was is told right, whether commands
// did what they could or the engine was told to kill or to stop it.
func TestAttribution(t *testing.T) {
	count := 24
	if *long {
		count = 400
	}
	b := open(t, docker.Config{})
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			return b.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 64 << 20, Processes: 32}})
		},
		Count: count, Workers: 4,
		Model: []string{
			"x=x; while :; do x=$x$x; done",
			"head -c 300M /dev/zero | tail -n 1 | wc -c",
			"f() { f | f & }; f; sleep 0.2",
			"kill -9 1; kill -9 -1",
			"kill -TERM 1; kill -INT 1; kill -HUP 1; kill -TERM -1",
		},
		Ours: []backendtest.Death{
			{Name: "killed by the engine", End: func(x backends.Sandbox) error { return b.Kill(x.ID()) }},
			{Name: "stopped by an operator", End: func(x backends.Sandbox) error { return b.Stop(x.ID()) }},
		},
	})
}

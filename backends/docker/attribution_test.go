//go:build linux

package docker_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
)

// assaults are commands that do what they can to end their box.
func assaults() []string {
	return []string{
		"x=x; while :; do x=$x$x; done",
		"head -c 300M /dev/zero | tail -n 1 | wc -c",
		"f() { f | f & }; f; sleep 0.2",
		"kill -9 1; kill -9 -1",
		"kill -TERM 1; kill -INT 1; kill -HUP 1; kill -TERM -1",
	}
}

// TestAttribution: the error of a container that ended blames the right side, whether commands
// did what they could, the engine was asked to kill or to stop it, or its connection broke.
func TestAttribution(t *testing.T) {
	count := 24
	if *long {
		count = 1800
	}
	b := open(t, docker.Config{})
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			return b.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 64 << 20, Processes: 32}})
		},
		Count: count, Workers: 4,
		Model: assaults(),
		Ours: []backendtest.Death{
			{Name: "killed by the engine", End: func(x backends.Sandbox) error { return b.Kill(x.ID()) }},
			{Name: "stopped by an operator", End: func(x backends.Sandbox) error { return b.Stop(x.ID()) }},
			{Name: "connection cut", End: docker.Cut},
		},
	})
}

// TestAttributionEngine is the same with an engine that is stopped, or killed, and started
// again, with containers that live on without it and with such that do not.
func TestAttributionEngine(t *testing.T) {
	count := 10
	if *long {
		count = 200
	}
	e := ownEngine(t)
	b, err := docker.Open(t.Context(), docker.Config{Host: e.host, Image: testImage, Slotd: builtServer(t)}, docker.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error("close the back-end: ", err)
		}
	})
	const without, with = "", "--live-restore" // what the engine is started with
	again := func(sig syscall.Signal, flag string) func(backends.Sandbox) error {
		return func(backends.Sandbox) error { return e.again(sig, flag) }
	}
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			return b.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 64 << 20, Processes: 32}})
		},
		Count: count,
		Model: assaults(),
		Ours: []backendtest.Death{ // one after the other: each finds the engine as the one before started it
			{Name: "engine stopped", End: again(syscall.SIGTERM, without)},
			{Name: "engine killed", End: again(syscall.SIGKILL, without)},
			{Name: "engine killed, live-restore at its start", End: again(syscall.SIGKILL, with), Survives: true},
			{Name: "engine stopped with live-restore", End: again(syscall.SIGTERM, with), Survives: true},
			{Name: "engine killed with live-restore, none at its start", End: again(syscall.SIGKILL, without)},
		},
	})
}

// TestExitCodes: an end that came from inside is the model's doing, unless the engine says that it failed itself.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		state  container.State
		broken bool
	}{
		{container.State{ExitCode: 0}, false},
		{container.State{ExitCode: 2}, true},
		{container.State{ExitCode: 2, Error: "the engine failed"}, false},
		{container.State{ExitCode: 137}, false},
		{container.State{ExitCode: 137, OOMKilled: true}, true},
		{container.State{ExitCode: 139}, true},
		{container.State{ExitCode: 159}, true},
	} {
		err := docker.Blame(tt.state)
		if errors.Is(err, backends.ErrBroken) != tt.broken {
			t.Errorf("%+v: %v", tt.state, err)
		}
	}
}

//go:build linux

package nomad_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/nomad"
	"hermes/backends/nomad/nomadtest"
)

// TestAttribution: the error of a slot that ended blames the right side, whether a command
// killed its server, an operator stopped it, its node was lost or its connections broke.
func TestAttribution(t *testing.T) {
	t.Parallel()
	count := 24
	if *long {
		count = 2000
	}
	f := cluster(t, nomadtest.Options{})
	b := open(t, f, nomad.Config{Max: 4})
	lost := "" // a node that comes back before the next box
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			if lost != "" {
				if err := f.ReturnNode(lost); err != nil {
					return nil, err
				}
				lost = ""
			}
			return b.Open(ctx, backends.Spec{})
		},
		Count: count,
		Model: []string{"kill -9 $PPID; sleep 1000", "kill -SEGV $PPID; sleep 1000", "kill -TERM $PPID; sleep 1; exit 3"},
		Ours: []backendtest.Death{
			{Name: "stopped by an operator", End: func(x backends.Sandbox) error { return f.Stop(nomad.Alloc(x)) }},
			{Name: "node lost", End: func(x backends.Sandbox) error {
				lost = f.NodeOf(nomad.Alloc(x))
				return f.LoseNode(lost)
			}},
			{Name: "connections cut", End: nomad.Cut, Survives: true},
		},
	})
}

// TestAttributionAway: the same where all servers are away when a slot ends. They are
// waited for: a slot that died with the power of its node is ours, one that a command ended
// meanwhile the model's.
func TestAttributionAway(t *testing.T) {
	t.Parallel()
	count := 24
	if *long {
		count = 400
	}
	f := cluster(t, nomadtest.Options{})
	b := open(t, f, nomad.Config{Max: 4})
	var back sync.WaitGroup
	t.Cleanup(func() {
		f.Up()
		back.Wait()
	})
	lost := "" // a node that comes back before the next box
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			f.Up()
			if lost != "" {
				if err := f.ReturnNode(lost); err != nil {
					return nil, err
				}
				lost = ""
			}
			x, err := b.Open(ctx, backends.Spec{})
			if err != nil {
				return nil, err
			}
			f.Down()
			back.Go(func() { // when the slot has ended
				id := nomad.Alloc(x)
				if f.Until(ctx.Done(), func() bool { return !slices.Contains(f.Running(), id) }) {
					f.Up()
				}
			})
			return x, nil
		},
		Count: count,
		Model: []string{"kill -9 $PPID; sleep 1000", "kill -SEGV $PPID; sleep 1000", "kill -TERM $PPID; sleep 1; exit 3"},
		Ours: []backendtest.Death{
			{Name: "power cut", End: func(backends.Sandbox) error {
				f.Crash()
				return nil
			}},
			{Name: "node lost", End: func(x backends.Sandbox) error {
				lost = f.NodeOf(nomad.Alloc(x))
				defer f.Up()
				return f.LoseNode(lost)
			}},
			{Name: "connections cut", End: nomad.Cut, Survives: true},
		},
	})
}

// TestExitCodes: in a container the exit code says whether the end came from inside; where slotd shares
// the node with its commands, every end did.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		driver, code string
		broken       bool
	}{
		{"docker", "0", false}, {"docker", "1", true}, {"docker", "2", true}, {"docker", "137", false}, {"docker", "139", true},
		{"docker", "143", false}, {"docker", "159", true}, {"docker", "", false}, {"raw_exec", "137", true},
	} {
		err := nomad.Ended(tt.driver, tt.code)
		if errors.Is(err, backends.ErrBroken) != tt.broken {
			t.Errorf("driver %s, exit code %q: %v", tt.driver, tt.code, err)
		}
	}
}

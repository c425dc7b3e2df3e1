package nomad_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/nomad"
)

// TestRealAgent runs the contract on raw_exec slots of a real agent on this machine, and
// prints what a warm command costs. docs/nomad.md tells how to get one.
func TestRealAgent(t *testing.T) {
	address := os.Getenv("HERMES_TEST_NOMAD_ADDR")
	if address == "" {
		t.Skip("HERMES_TEST_NOMAD_ADDR names no Nomad agent on this machine with raw_exec enabled")
	}
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	web, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	b, err := nomad.Open(t.Context(), nomad.Config{Address: address, Driver: "raw_exec", Slotd: program(t), Max: 8, CPU: 10, Memory: 32 << 20, Disk: 120 << 20,
		Rootless: os.Geteuid() != 0}, nomad.Surroundings{Tell: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
		Secret: "not-for-boxes",
		Kill: func(x backends.Sandbox) error {
			id := nomad.Alloc(x)
			if _, err := web.Allocations().Stop(&api.Allocation{ID: id}, nil); err != nil {
				return err
			}
			for q := (&api.QueryOptions{}); ; {
				a, meta, err := web.Allocations().Info(id, q)
				if err != nil || a.ClientTerminalStatus() {
					return err
				}
				q.WaitIndex = meta.LastIndex
			}
		},
		Cut:   nomad.Cut,
		Skips: rawSkips(),
	})
	x := box(t, b, backends.Spec{})
	var took []time.Duration
	for range 200 {
		began := time.Now()
		sh(t, x, "true")
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("warm command: p50 %v, p95 %v", took[100], took[190])
	shut(t, x)
}

package build_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
	"hermes/rollout/tool/box/boxtest"
)

// metered notes what the commands of a box cost.
type metered struct {
	backends.Sandbox
	cpu, wall []time.Duration
}

func (m *metered) Unwrap() backends.Sandbox { return m.Sandbox }

func (m *metered) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	began := time.Now()
	r, err := m.Sandbox.Exec(ctx, c)
	m.cpu, m.wall = append(m.cpu, r.CPU), append(m.wall, time.Since(began))
	return r, err
}

// TestTerminalCost: what keeps the shell's state between two calls of terminal costs little
// beside the shell itself. Both are measured by turns, so that a busy machine is busy for both;
// what is too much is measured again, since a machine may become busy for one alone.
func TestTerminalCost(t *testing.T) {
	b, err := driver.Open(t.Context(), namespace.Config{})
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"bash", "-c", ":"}}); err != nil || r.Code != 0 {
		t.Skipf("no bash here: %d, %v", r.Code, err)
	}
	m, plain := &metered{Sandbox: x}, &metered{Sandbox: x}
	s := boxtest.NewSet(t, m, box.Options{})
	boxtest.Call(t, s, "terminal", map[string]any{"command": "f() { echo $1; }; alias ll='ls -l'; export X=1; cd /tmp"})
	const tries = 5
	for try := range tries {
		cpu, wall := terminalCost(t, s, m, plain)
		if cpu <= 2.5 && wall <= 2.5 {
			return
		}
		if try == tries-1 {
			t.Errorf("a call of terminal costs %.2f times the processor time of bash -c and %.2f times its time, more than 2.5", cpu, wall)
		}
	}
}

// terminalCost gives how many times the processor's and the clock's time of bash -c a call of
// terminal takes.
func terminalCost(t *testing.T, s *tool.Set, m, plain *metered) (cpu, wall float64) {
	t.Helper()
	m.cpu = nil
	m.wall = nil
	plain.cpu = nil
	plain.wall = nil
	var calls []time.Duration
	for range 60 {
		if r, err := plain.Exec(t.Context(), backends.Cmd{Shell: "true", Merge: true}); err != nil || r.Code != 0 {
			t.Fatalf("%+v %v", r, err)
		}
		began := time.Now()
		boxtest.Call(t, s, "terminal", map[string]any{"command": "true"})
		calls = append(calls, time.Since(began))
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2].Microseconds()) / 1000
	}
	cpu, cpuPlain := median(m.cpu), median(plain.cpu)
	wall, wallPlain := median(calls), median(plain.wall)
	t.Logf("terminal: %.2f ms of processor, %.2f ms; bash -c: %.2f ms, %.2f ms; %.2f and %.2f times",
		cpu, wall, cpuPlain, wallPlain, cpu/cpuPlain, wall/wallPlain)
	return cpu / cpuPlain, wall / wallPlain
}

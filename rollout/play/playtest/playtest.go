// Package playtest gives tests of environments a player with real boxes. A box is a
// directory and processes of this machine, with the terminal and file tools.
package playtest

import (
	"context"
	"testing"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/rollout"
	"hermes/rollout/play"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
)

// New returns a player whose boxes end with the test.
func New(t testing.TB) play.Player {
	t.Helper()
	b, err := local.New(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return With(t, b)
}

// With returns a player whose boxes are those of a back-end, which ends with the test.
func With(t testing.TB, b backends.Backend) play.Player {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	catalog, err := tool.NewCatalog(nil, box.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(ctx context.Context, names []string, _ func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
		p, err := catalog.Plan(ctx, names, tool.MissingFail)
		return p.Defs, nil, err
	}
	return play.Player{Backend: b, Plan: plan, Toolsets: []string{"terminal", "file"}, Images: &rollout.Images{}}
}

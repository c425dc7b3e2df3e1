package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"hermes/backends"
	"hermes/rollout"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// hearing is a back-end that hears of boxes before they are asked for.
type hearing struct {
	boxes
	heard *[]string
}

func (f hearing) Expect(backends.Spec) func(bool) {
	*f.heard = append(*f.heard, "expect")
	return func(opened bool) { *f.heard = append(*f.heard, fmt.Sprint("over ", opened)) }
}

func (f hearing) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	*f.heard = append(*f.heard, "open")
	return f.boxes.Open(ctx, s)
}

// TestBoxIsExpected: the back-end hears before the model is asked that a box may be needed, where
// a tool needs one, and in any case whether it was. It is opened at the first call.
func TestBoxIsExpected(t *testing.T) {
	talk := []trajectory.Turn{calls(echo("a")), says("done")}
	for _, tt := range []struct {
		name  string
		world *world
		needs bool
		heard []string
	}{
		{name: "used", world: &world{turns: talk}, needs: true, heard: []string{"expect", "ask", "over true", "open", "ask"}},
		{name: "not used", world: &world{turns: []trajectory.Turn{says("hi")}}, needs: true, heard: []string{"expect", "ask", "over false"}},
		{name: "no tool that needs one", world: &world{turns: []trajectory.Turn{says("hi")}}, heard: []string{"ask"}},
		{name: "filled before", world: &world{turns: talk, files: map[string]string{"f": "x"}}, needs: true, heard: []string{"open", "ask", "ask"}},
		{name: "the model fails", world: &world{next: func(context.Context) error { return backends.ErrClosed }}, needs: true, heard: []string{"expect", "ask", "over false"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var heard []string
			w := tt.world
			next := w.next
			w.next = func(ctx context.Context) error {
				heard = append(heard, "ask")
				if next != nil {
					return next(ctx)
				}
				return nil
			}
			plan := func(ctx context.Context, names []string, box func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
				defs, dropped, err := w.plan(ctx, names, box)
				for i := range defs {
					defs[i].Traits.NeedsBox = tt.needs
				}
				return defs, dropped, err
			}
			if _, err := run(t, w, rollout.Options{Backend: hearing{boxes{w}, &heard}, Plan: plan}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(heard, tt.heard) {
				t.Errorf("heard %q, want %q", heard, tt.heard)
			}
		})
	}
}

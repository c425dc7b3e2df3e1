package backendtest_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
)

// TestSuiteCatchesABadBox: the fake answers every command with nothing, which is not
// what a box does; the rows must say so.
func TestSuiteCatchesABadBox(t *testing.T) {
	f := backendtest.NewFake(nil)
	t.Cleanup(func() { f.Close(context.Background()) })
	failed := map[int]string{}
	skipped := 0
	passed := map[int]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	backendtest.Check(ctx, f, backendtest.Options{}, func(r backendtest.Report) {
		switch {
		case r.Failed:
			failed[r.Row.Number] = r.Text
		case r.Skipped:
			skipped++
		default:
			passed[r.Row.Number] = true
		}
		if r.Row.Number == 24 { // the rows that wait for processes would wait long
			cancel()
		}
	})
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 16, 17, 18, 20} {
		if failed[n] == "" {
			t.Errorf("row %d did not catch it", n)
		}
	}
	if !passed[21] {
		t.Errorf("row 21 (no output) should pass: %q", failed[21])
	}
}

func TestRowsAreNumbered(t *testing.T) {
	seen := map[int]bool{}
	for _, r := range backendtest.Rows() {
		if seen[r.Number] || r.Name == "" {
			t.Errorf("row %d twice or without a name", r.Number)
		}
		seen[r.Number] = true
	}
	for n := 1; n <= 99; n++ {
		if !seen[n] {
			t.Errorf("row %d is missing", n)
		}
	}
}

func TestFake(t *testing.T) {
	f := backendtest.NewFake(func(_ context.Context, b *backendtest.FakeBox, c backends.Cmd) (backends.Result, error) {
		return backends.Result{Stdout: []byte(strings.ToUpper(c.Shell))}, nil
	})
	ctx := t.Context()
	b, err := f.Open(ctx, backends.Spec{Dir: "sub"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Exec(ctx, backends.Cmd{Shell: "ls"}); err != nil || string(r.Stdout) != "LS" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	if err := b.WriteFile(ctx, "f", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if data, err := b.ReadFile(ctx, "/box/sub/f", 0); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := b.ReadFile(ctx, "g", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	f.Close(ctx)
	if _, err := b.Exec(ctx, backends.Cmd{}); !errors.Is(err, backends.ErrClosed) {
		t.Error(err)
	}
	if box := f.Boxes()[0]; !box.Closed() || len(box.Ran()) != 1 {
		t.Errorf("closed %v, ran %v", box.Closed(), box.Ran())
	}
}

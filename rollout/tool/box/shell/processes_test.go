package shell_test

import (
	"context"
	"testing"
	"time"

	"hermes/backends"
	"hermes/rollout/tool/box/shell"
)

// running is a process that runs until it is killed.
type running struct {
	backends.Process
	end chan struct{}
}

func (r running) Wait(ctx context.Context) (backends.Result, error) {
	select {
	case <-r.end:
		return backends.Result{Code: 137}, nil
	case <-ctx.Done():
		return backends.Result{}, ctx.Err()
	}
}

func (r running) Kill(context.Context, time.Duration) error {
	close(r.end)
	return nil
}

// TestProcessesMakeRoom: a full table takes another process only in the place of one that has ended.
func TestProcessesMakeRoom(t *testing.T) {
	table := shell.NewProcesses(func() time.Time { return time.Time{} })
	add := func(name string) bool {
		return table.Add(&shell.Process{Process: running{end: make(chan struct{})}, Name: name}, nil)
	}
	for i := range shell.MaxProcesses {
		if !add(string(rune('A' + i))) {
			t.Fatalf("process %d is refused", i)
		}
	}
	if add("more") {
		t.Error("one more than the bound is taken")
	}
	third := table.Find("C")
	if err := third.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if code, _, err, ended := third.Ended(); code != -15 || err != nil || !ended {
		t.Errorf("killed: code %d, %v, ended %v, want -15", code, err, ended)
	}
	if !add("more") || table.Find("C") != nil || table.Find("B") == nil || len(table.All()) != shell.MaxProcesses {
		t.Error("the place of the one that has ended is not taken")
	}
	if err := table.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, _, ended := table.Find("B").Ended(); !ended {
		t.Error("a process runs on after Close")
	}
}

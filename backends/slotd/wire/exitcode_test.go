package wire_test

import (
	"testing"

	"hermes/backends/slotd/wire"
)

// TestEndedByCommands: whose doing the end of a container's first process was.
func TestEndedByCommands(t *testing.T) {
	for _, tt := range []struct {
		what string
		code int
		want bool
	}{
		{"hermes is gone", 0, false},
		{"slotd cannot go on", 1, true},
		{"a Go program that breaks: memory, threads, a forged fault", 2, true},
		{"the engine did not start it", 125, false},
		{"the engine could not execute it", 126, false},
		{"the engine did not find it", 127, false},
		{"an illegal instruction", 132, true},
		{"abort", 134, true},
		{"a bus error", 135, true},
		{"killed, by whoever may", 137, false},
		{"a fault of memory", 139, true},
		{"stopped by an operator", 143, false},
		{"too much processor time, softly", 152, true},
		{"too large a file", 153, true},
		{"a call that a filter kills", 159, true},
		{"the engine lost it", 255, false},
		{"unknown", -1, false},
	} {
		if got := wire.EndedByCommands(tt.code); got != tt.want {
			t.Errorf("%s (%d): %v", tt.what, tt.code, got)
		}
	}
}

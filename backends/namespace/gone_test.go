//go:build linux

package namespace_test

import (
	"fmt"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
)

// TestRefusedWithReport: a command that cannot be started says so, whatever it was to be given:
// where its folder is gone, it did not end with exit code 0.
func TestRefusedWithReport(t *testing.T) {
	b := open(t, namespace.Config{})
	for _, c := range []backends.Cmd{
		{Shell: "exit 5"},
		{Shell: "exit 5", Report: "VERDICT"},
		{Shell: "exit 5", Report: "VERDICT", Alone: true},
		{Argv: []string{"no-such-program"}, Dir: "/", Report: "VERDICT"},
		{Argv: []string{"/etc/passwd"}, Dir: "/", Report: "VERDICT"},
	} {
		for _, woken := range []bool{false, true} { // pid 1 starts it, or slotd
			refusedIn(t, boxOf(t, b, backends.Spec{}), c, woken)
		}
	}
}

func refusedIn(t *testing.T, x backends.Sandbox, c backends.Cmd, woken bool) {
	t.Helper()
	if woken {
		served(t, x)
	}
	if r, err := x.Exec(t.Context(), backends.Cmd{Shell: "rmdir /root"}); err != nil || r.Code != 0 {
		t.Fatal(r, err)
	}
	r, err := x.Exec(t.Context(), c)
	if got := fmt.Sprintf("%d %q", r.Code, r.Report); err != nil || r.Code != 126 && r.Code != 127 || len(r.Report) > 0 || len(r.Stderr) == 0 {
		t.Errorf("%+v: %s %q, %v", c, got, r.Stderr, err)
	}
}

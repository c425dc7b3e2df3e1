package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary stand in for hermes when a script runs it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hermes": main, "hermes-slotd": main, "hermes-keeper": keeper})
}

// TestScripts runs the command line as a user would. Besides the commands of testscript
// a script has `exits CODE hermes ARG…`.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HERMES_HOME", filepath.Join(e.WorkDir, "home"))
			root, err := filepath.Abs(checkout)
			e.Setenv("CHECKOUT", root)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "mkrun": mkrun, "freeport": freeport, "ask": ask},
	})
}

// exits runs a program and compares its exit code; stdout and stderr can be looked at
// afterwards.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

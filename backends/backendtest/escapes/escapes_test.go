//go:build linux

package escapes_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hermes/backends/backendtest/escapes"
)

func TestMain(m *testing.M) {
	if code, ok := escapes.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestAttemptsAreReal: none vanishes; outside of any box, where nothing forbids it, attempts work or are
// refused by the kernel, and what is no attempt is distinguished.
func TestAttemptsAreReal(t *testing.T) {
	golden, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := escapes.Names()
	for kind, names := range map[string][]string{"left": escapes.PairNames(), "tenant": escapes.WordNames(), "race": escapes.RaceNames()} {
		for _, name := range names {
			all = append(all, kind+": "+name)
		}
	}
	slices.Sort(all)
	if have := strings.Join(all, "\n") + "\n"; have != string(golden) {
		t.Errorf("attempts are not those of testdata/names.txt: an attempt that goes, goes from there too:\n%s", have)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code := func(name string) int {
		err := exec.CommandContext(t.Context(), self, "hermes-escape", name).Run()
		if exit, ok := err.(*exec.ExitError); ok {
			return exit.ExitCode()
		}
		return 0
	}
	if c := code("links of nothing"); c != 3 {
		t.Errorf("an unknown attempt ended with %d", c)
	}
	if c := code("host devices"); c != 1 {
		t.Errorf("the machine's devices can be listed here, and the attempt ended with %d", c)
	}
}

package main_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// maxStart bounds what a package of ours allocates before main: tables are made at their
// first use (internal/late for patterns).
const maxStart = 64 << 10

// larger are packages of ours that may allocate more, with the reason.
func larger() map[string]int {
	return map[string]int{
		"hermes/parsers": 80 << 10, // 60 families, each a value with its grammar
	}
}

// TestStart reads what the runtime says of each package's initialization. Bytes are the law
// for packages of ours; those of libraries and the times are printed.
func TestStart(t *testing.T) {
	program, err := os.Executable() // TestMain makes it hermes where it is called that
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "version")
	c.Args[0] = "hermes"
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var errs strings.Builder
	c.Stderr = &errs
	if out, err := c.Output(); err != nil {
		t.Fatalf("hermes version: %v\n%s%s", err, out, errs.String())
	}
	type share struct {
		name  string
		clock time.Duration
		bytes int
	}
	var ours, libraries []share
	for line := range strings.Lines(errs.String()) {
		var s share
		var at, ms float64
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes", &s.name, &at, &ms, &s.bytes); n != 4 {
			continue
		}
		s.clock = time.Duration(ms * float64(time.Millisecond))
		switch domain, _, _ := strings.Cut(s.name, "/"); {
		case domain == "hermes":
			ours = append(ours, s)
		case strings.Contains(domain, "."):
			libraries = append(libraries, s)
		}
	}
	if len(ours) < 10 {
		t.Fatalf("the runtime listed %d packages of ours:\n%s", len(ours), errs.String())
	}
	for _, s := range ours {
		if s.name == "hermes/cmd/hermes" {
			continue // this test binary's own package: mostly variables of tests
		}
		if most := cmp.Or(larger()[s.name], maxStart); s.bytes > most {
			t.Errorf("%s allocates %d bytes at start, at most %d are allowed: make its tables at their first use", s.name, s.bytes, most)
		}
	}
	sum := func(list []share) (total share) {
		for _, s := range list {
			total.clock += s.clock
			total.bytes += s.bytes
		}
		return total
	}
	t.Logf("ours: %d packages, %d bytes, %v", len(ours), sum(ours).bytes, sum(ours).clock)
	t.Logf("libraries: %d packages, %d bytes, %v (10 ms on an idle machine are the aim)", len(libraries), sum(libraries).bytes, sum(libraries).clock)
	slices.SortFunc(libraries, func(a, b share) int { return cmp.Compare(b.clock, a.clock) })
	for _, s := range libraries[:min(8, len(libraries))] {
		t.Logf("%8d bytes %10v %s", s.bytes, s.clock, s.name)
	}
}

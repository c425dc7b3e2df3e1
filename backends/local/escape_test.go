//go:build linux

package local_test

import (
	"os"
	"strings"
	"testing"

	"hermes/backends/backendtest/escapes"
	"hermes/backends/local"
)

// TestAttemptsWork: what the isolated back-ends are attacked with works where nothing guards.
func TestAttemptsWork(t *testing.T) {
	status, _ := os.ReadFile("/proc/self/status")
	_, caps, _ := strings.Cut(string(status), "CapEff:\t")
	if !strings.HasPrefix(caps, "000001ff") {
		t.Skipf("root of a whole machine is needed, capabilities are %.16s", caps)
	}
	const least = 140 // some need a device, or a way out
	if n := escapes.Unguarded(t, open(t, local.Config{})); n < least {
		t.Errorf("%d of %d attempts work where nothing forbids them, want %d", n, len(escapes.Names()), least)
	} else {
		t.Logf("%d of %d attempts work where nothing forbids them", n, len(escapes.Names()))
	}
}

// TestNeighboursMeet: what isolated boxes must not find of each other is found where nothing
// keeps them apart, and races are lost where file calls are not confined.
func TestNeighboursMeet(t *testing.T) {
	const least = 12 // some folders are a machine's own matter
	if found := escapes.Found(t, open(t, local.Config{})); len(found) < least {
		t.Errorf("found %q of %q, want %d", found, escapes.PairNames(), least)
	} else {
		t.Logf("found %d of %d: %q", len(found), len(escapes.PairNames()), found)
	}
	if lost := escapes.Raced(t, open(t, local.Config{})); len(lost) < 3 {
		t.Errorf("lost %q of %q", lost, escapes.RaceNames())
	} else {
		t.Logf("lost %q of %q", lost, escapes.RaceNames())
	}
}

// TestRaces: file calls that are confined stay inside while names are exchanged.
func TestRaces(t *testing.T) { escapes.Races(t, open(t, local.Config{Confine: true})) }

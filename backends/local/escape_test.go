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

//go:build linux

package docker_test

import (
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest/reach"
	"hermes/backends/docker"
)

// TestReach: no command gets at slotd. Its files in /proc are root's, as commands are; what
// they can write there ends nothing but by the box's own memory limit.
func TestReach(t *testing.T) {
	for _, tt := range []struct {
		name string
		conf docker.Config
		open map[string]string
	}{
		{"root", docker.Config{}, map[string]string{"files of proc": "oom_score_adj upwards, autogroup, and what only tells"}},
		{"a user",
			docker.Config{User: "1000:1000", Home: "/tmp"},
			map[string]string{"files of proc": "timerslack_ns is open to all, and refuses what is written"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reach.Run(t, boxOf(t, open(t, tt.conf), backends.Spec{}), tt.open)
		})
	}
}

// TestReachLimits: limits of slotd are as they were after commands tried. Beside the filter, a
// group that slotd alone has keeps them: the kernel asks for all ids of a process.
func TestReachLimits(t *testing.T) {
	x := boxOf(t, open(t, docker.Config{}), backends.Spec{})
	if _, out := sh(t, x, "grep -h ^Gid: /proc/1/status /proc/self/status"); strings.Join(strings.Fields(out), " ") != "Gid: 0 0 1 0 Gid: 0 0 0 0" {
		t.Errorf("groups of slotd, and of a command: %q", out)
	}
	for _, script := range reach.Limits() {
		code, out := sh(t, x, "cat /proc/1/limits > before; "+script+"; cmp before /proc/1/limits")
		if code != 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
}

// TestCalls: commands have no call that is not of the list; engines differ in what theirs
// refuses.
func TestCalls(t *testing.T) {
	reach.Calls(t, boxOf(t, open(t, docker.Config{}), backends.Spec{}), true)
}

package main

import (
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLinksTheServerOnly: the program in a box holds the server and what makes boxes on a host of
// ssh. The client, the drivers and the agent are hermes'.
func TestLinksTheServerOnly(t *testing.T) {
	want := []string{"backends", "backends/egress", "backends/namespace", "backends/namespace/pid1", "backends/namespace/unpack",
		"backends/slotd/filter", "backends/slotd/globs", "backends/slotd/host", "backends/slotd/pipes", "backends/slotd/procs",
		"backends/slotd/program", "backends/slotd/server", "backends/slotd/wire", "backends/ssh/station", "backends/trees", "cmd/slotd"}
	var got []string
	for next := []string{"cmd/slotd"}; len(next) > 0; next = next[1:] {
		if slices.Contains(got, next[0]) {
			continue
		}
		got = append(got, next[0])
		p, err := build.ImportDir(filepath.Join("..", "..", next[0]), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			if own, ok := strings.CutPrefix(path, "hermes/"); ok {
				next = append(next, own)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the program imports\n%v, want\n%v", got, want)
	}
}

//go:build linux

package filter

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// table is the list as docs/slotd.md shows it.
func table() string {
	var b strings.Builder
	b.WriteString("| group | calls | reason |\n|---|---|---|\n")
	open, bound, missing := Groups()
	for _, part := range []struct {
		what   string
		groups []Group
	}{{"allowed", open}, {"by arguments", bound}, {"do not exist", missing}} {
		for _, g := range part.groups {
			fmt.Fprintf(&b, "| %s: %s | `%s` | %s |\n", part.what, g.Name, strings.Join(g.Calls(), " "), g.Reason)
		}
	}
	return b.String()
}

// TestDocs: the page shows the list as it is.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/slotd.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := table(); !strings.Contains(string(raw), want) {
		t.Errorf("docs/slotd.md does not have this table:\n%s", want)
	}
}

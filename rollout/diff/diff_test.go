package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/rollout/diff"
)

func TestUnified(t *testing.T) {
	for _, tt := range []struct{ oldName, newName, before, after, want string }{
		{"x", "x", "same\n", "same\n", ""},
		{"d/x", "d/x", "a\nb\nc\n", "a\nB\nc\n", "--- a/d/x\n+++ b/d/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"", "/x", "", "new\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+new\n"},
		{"x", "", "old", "", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n\\ No newline at end of file\n"},
	} {
		if got := diff.Unified(tt.oldName, tt.newName, tt.before, tt.after); got != tt.want {
			t.Errorf("%q to %q:\n%s\nwant\n%s", tt.before, tt.after, got, tt.want)
		}
	}
}

func TestBinary(t *testing.T) {
	for text, want := range map[string]bool{"": false, "é\n": false, "a\x00b": true, "\xff\xfe": true} {
		if diff.Binary([]byte(text)) != want {
			t.Errorf("%q is binary: %v", text, !want)
		}
	}
}

// FuzzUnified applies the difference to the old version; the new one must come out.
func FuzzUnified(f *testing.F) {
	f.Add("a\nb\nc\nd\n", "a\nc\nd")
	f.Add("", "x")
	f.Add(strings.Repeat("same\n", 40)+"end", "begin\n"+strings.Repeat("same\n", 40))
	f.Fuzz(func(t *testing.T, before, after string) {
		d := diff.Unified("f", "f", before, after)
		if (d == "") != (before == after) {
			t.Fatalf("%q to %q: %q", before, after, d)
		}
		if got := apply(t, before, d); got != after {
			t.Fatalf("%q to %q: the patch gives %q\n%s", before, after, got, d)
		}
	})
}

// apply is a strict patch(1).
func apply(t *testing.T, before, patch string) string {
	if patch == "" {
		return before
	}
	old := slices.Collect(strings.Lines(before))
	var out strings.Builder
	at := 0 // lines of old that are used up
	lines := slices.Collect(strings.Lines(patch))[2:]
	for i, l := range lines {
		text := l[1:]
		if i+1 < len(lines) && lines[i+1][0] == '\\' {
			text = strings.TrimSuffix(text, "\n")
		}
		switch l[0] {
		case '@':
			var from, n int
			if c, _ := fmt.Sscanf(l, "@@ -%d,%d", &from, &n); c < 2 {
				fmt.Sscanf(l, "@@ -%d", &from)
				n = 1
			}
			for first := from - min(n, 1); at < first; at++ {
				out.WriteString(old[at])
			}
		case '+':
			out.WriteString(text)
		case '-', ' ':
			if at >= len(old) || old[at] != text {
				t.Fatalf("line %d of the old version is not %q in\n%s", at+1, text, patch)
			}
			at++
			if l[0] == ' ' {
				out.WriteString(text)
			}
		}
	}
	for _, l := range old[at:] {
		out.WriteString(l)
	}
	return out.String()
}

package nearest_test

import (
	"strings"
	"testing"

	"hermes/internal/nearest"
)

func TestName(t *testing.T) {
	names := []string{"terminal", "read_file", "write_file", "execute_code", "todo", "in-flight", "prompt", "n", "größe"}
	tests := []struct{ word, want string }{
		{"terminal", "terminal"},
		{"Terminal_tool", "terminal"},
		{"termnial", "terminal"}, // a swap is one step
		{"readfile", "read_file"},
		{"write-file", "write_file"},
		{"file", "read_file"}, // a part of two: the first in the alphabet
		{"in_flite", "in-flight"},
		{"promt", "prompt"},
		{"code", "execute_code"},
		{"zzz", ""},
		{"", ""},
		{"x", ""}, // nothing in common with n
		{"nn", "n"},
		{"gräßä", ""}, // 2 of 5 characters, which are 8 bytes
		{strings.Repeat("x", 1<<20), ""},
	}
	for _, tt := range tests {
		if got := nearest.Name(tt.word, names); got != tt.want {
			t.Errorf("Name(%.20q) = %q, want %q", tt.word, got, tt.want)
		}
	}
	if got := nearest.Names("wriet_file", names, 2); len(got) != 2 || got[0] != "write_file" || got[1] != "read_file" {
		t.Errorf("Names: %q", got)
	}
}

// FuzzDistance holds the laws of a distance: zero for equals only, the same in both
// directions, at most the longer length, at least the difference of the lengths.
func FuzzDistance(f *testing.F) {
	f.Add("kitten", "sitting")
	f.Add("ab", "ba")
	f.Add("", "é")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := []rune(a), []rune(b)
		if len(x) > 64 || len(y) > 64 {
			return
		}
		d := nearest.Distance(a, b)
		if (d == 0) != (string(x) == string(y)) || d != nearest.Distance(b, a) {
			t.Errorf("Distance(%q, %q) = %d, back %d", a, b, d, nearest.Distance(b, a))
		}
		if d > max(len(x), len(y)) || d < max(len(x)-len(y), len(y)-len(x)) {
			t.Errorf("Distance(%q, %q) = %d is out of bounds", a, b, d)
		}
	})
}

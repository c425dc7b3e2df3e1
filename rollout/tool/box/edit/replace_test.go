package edit_test

import (
	"strings"
	"testing"

	"hermes/rollout/tool/box/edit"
)

func TestReplaceLadder(t *testing.T) {
	const file = "func a() {\n\tx  := \"it's\"\n\treturn x\n}\n\nfunc b() {\n\treturn “q”\n}\n"
	tests := []struct{ name, old, new, strategy, want string }{
		{"exact", "return x", "return y", "exact", "\treturn y\n"},
		{"trimmed lines keep the file's indentation", "x  := \"it's\"\nreturn x\n", "z := 1\nreturn z\n", "lines trimmed", "\tz := 1\n\treturn z\n}"},
		{"blanks collapsed", "\tx := \"it's\"\n", "\ty := 2\n", "blanks collapsed", "func a() {\n\ty := 2\n\treturn x"},
		{"escapes", `\treturn x\n}`, `\treturn 1\n}`, "escapes resolved", "\treturn 1\n}"},
		{"typographic", `return "q"`, "return 3", "typographic characters", "func b() {\n\treturn 3\n}"},
	}
	for _, tt := range tests {
		got, strategy, err := edit.Replace(file, tt.old, tt.new, false)
		if err != nil || strategy != tt.strategy || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, %v\n%s", tt.name, strategy, err, got)
		}
	}
	for _, bad := range [][2]string{{"", "x"},
		{"return", "return"},
		{"func ", "fn "},
		{"nowhere to be found at all", "x"},
		{"func a() {\n\tx := \"its\"\n\treturn  x;\n}", "func c() {\n}"},
		{"func c() {\n\treturn x\n}\n\nfunc b() {", "y"}} {
		if got, _, err := edit.Replace(file, bad[0], bad[1], false); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
	if got, _, err := edit.Replace("a\r\nb\r\n", "a\nb\n", "c\nd\n", false); err != nil || got != "c\r\nd\r\n" {
		t.Errorf("CRLF: %q %v", got, err)
	}
}

// TestReplaceKeepsTheFilesWays: tabs and line ends of the lines that are replaced stay what
// they are in the file.
func TestReplaceKeepsTheFilesWays(t *testing.T) {
	tests := []struct{ name, file, old, new, want string }{
		{"tabs for four blanks", "\tfoo()\n\tbar()\n", "    foo()", "    baz()", "\tbaz()\n\tbar()\n"},
		{"tabs for two blanks", "\tif x:\n\t\ty()\n", "  if x:\n    y()", "  if z:\n    y()\n    w()", "\tif z:\n\t\ty()\n\t\tw()\n"},
		{"tabs, named one step less", "\tif x:\n\t\ty()\n", "if x:\n    y()", "if z:\n    y()\nelse:\n    w()", "\tif z:\n\t\ty()\n\telse:\n\t\tw()\n"},
		{"blanks for tabs", "    if x:\n        y()\n", "\tif x:\n\t\ty()", "\tif z:\n\t\ty()", "    if z:\n        y()\n"},
		{"two blanks for tabs", "  if x:\n    y()\n", "\tif x:\n\t\ty()", "\tif z:\n\t\ty()", "  if z:\n    y()\n"},
		{"CR LF in a file of other lines", "x\ny\nz\na\r\nb\r\n", "a\nb", "A\nB", "x\ny\nz\nA\r\nB\r\n"},
		{"CR LF, with the last end", "x\ny\nz\na\r\nb\r\nc\n", "a\nb\n", "A\n", "x\ny\nz\nA\r\nc\n"},
	}
	for _, tt := range tests {
		if got, _, err := edit.Replace(tt.file, tt.old, tt.new, false); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// A replacement changes what it found and nothing else; undoing it gives the file back.
func FuzzReplace(f *testing.F) {
	f.Add("a\nb\nc\n", "b", "x\ny")
	f.Add("  if x:\n    y()\n", "if x:\n  y()", "if z:\n  y()")
	f.Add("“q”\r\n\xff\n", "\"q\"", "z")
	f.Fuzz(func(t *testing.T, content, old, new string) {
		got, strategy, err := edit.Replace(content, old, new, false)
		if err != nil {
			return
		}
		head := 0
		for head < min(len(got), len(content)) && got[head] == content[head] {
			head++
		}
		if strategy != "exact" || strings.Contains(content, "\r") {
			return
		}
		i := strings.Index(content, old)
		if want := content[:i] + new + content[i+len(old):]; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if new != "" && strings.Index(got, new) == strings.LastIndex(got, new) { // once, overlapping ones counted
			if back, _, err := edit.Replace(got, new, old, false); err != nil || back != content {
				t.Fatalf("undone: %q, %v; want %q", back, err, content)
			}
		}
	})
}

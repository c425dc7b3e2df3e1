package cmd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"hermes/cmd"
)

// screen is how many lines of a help page a terminal shows.
const screen = 50

// nodes are all commands that users see, the root first.
func nodes(t *testing.T) []*kong.Node {
	t.Helper()
	var all []*kong.Node
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		if n.Hidden {
			return
		}
		all = append(all, n)
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(cmd.Grammar(t).Model.Node)
	if len(all) < 60 {
		t.Fatalf("%d commands", len(all))
	}
	return all
}

// TestHelpOfEveryCommand: help is a result, exit 0, on stdout, whatever else is missing; a
// page fits a screen, and --help-all shows every flag.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, n := range nodes(t) {
		args := strings.Fields(n.Path())
		help := func(environ []string, words ...string) string {
			t.Helper()
			code, stdout, stderr := cmd.Run(t.Context(), environ, nil, cmd.Builtin(), words...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, strings.TrimSpace("Usage: hermes "+n.Path())) {
				t.Errorf("%v: exit %d, %q, %q", words, code, stdout, stderr)
			}
			return stdout
		}
		short := help(nil, append(slices.Clone(args), "--help")...)
		if lines := strings.Count(short, "\n"); lines > screen {
			t.Errorf("the help of %q has %d lines, more than the %d of a screen: name its usual flags in pages", n.Path(), lines, screen)
		}
		if again := help([]string{"HERMES_CONCURRENCY=nonsense"}, append([]string{"help"}, args...)...); again != short {
			t.Errorf("help %s: %q, want what --help shows", n.Path(), again)
		}
		whole := help(nil, append(slices.Clone(args), "--help-all")...)
		for _, level := range n.AllFlags(true) {
			for _, f := range level {
				if !strings.Contains(whole, f.Name) {
					t.Errorf("%s --help-all does not show --%s", n.Path(), f.Name)
				}
			}
		}
	}
}

// TestHelpPages: pages are of commands that exist, name flags that they have, and give
// examples that can be parsed.
func TestHelpPages(t *testing.T) {
	byPath := map[string]*kong.Node{}
	for _, n := range nodes(t) {
		byPath[n.Path()] = n
	}
	examples, usual := cmd.HelpPages()
	for path, names := range usual {
		n := byPath[path]
		if n == nil {
			t.Errorf("%q is no command", path)
			continue
		}
		for _, name := range names {
			if !slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name }) {
				t.Errorf("%s has no flag --%s", path, name)
			}
		}
	}
	for path, lines := range examples {
		for _, line := range lines {
			words := strings.Fields(strings.ReplaceAll(line, `"What is in this folder?"`, "What"))
			if words[0] != "hermes" || !strings.HasPrefix(strings.Join(words[1:], " "), path) {
				t.Errorf("an example of %q: %s", path, line)
			}
			if _, err := cmd.Grammar(t).Parse(words[1:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

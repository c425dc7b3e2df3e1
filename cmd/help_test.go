package cmd_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	home := t.TempDir()
	write(t, filepath.Join(home, "config.yaml"), "a: [")
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
		if again := help([]string{"HERMES_CONCURRENCY=nonsense", "HERMES_HOME=" + home}, append([]string{"help"}, args...)...); again != short {
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

var (
	update = flag.Bool("update", false, "write docs/cli.md again")
	long   = flag.Bool("long", false, "10 seeds of the policy that learns instead of 2")
)

// TestReference: docs/cli.md is what the flags say. `go test ./cmd -run Reference -update`
// writes it.
func TestReference(t *testing.T) {
	const page = "../docs/cli.md"
	want := reference(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the flags say (%v): go test ./cmd -run Reference -update", page, err)
	}
}

// reference is the page of all commands. A group of flags that several commands share
// is written once, at the end.
func reference(t *testing.T) string {
	examples, _ := cmd.HelpPages()
	groups := map[string]string{} // tables by title
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the flags; `hermes help COMMAND` shows the same. Every flag but those marked * is also a key of run files and a variable ([configuration](configuration.md)).\n")
	for _, n := range nodes(t) {
		if len(n.Children) > 0 && n.Parent != nil {
			continue
		}
		title := strings.TrimSpace("hermes " + n.Path())
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, n.Help)
		if n.Parent == nil {
			b.WriteString("\nFlags of every command:\n\n" + table(n.Flags))
			continue
		}
		fmt.Fprintf(&b, "\n`hermes %s`\n", n.Summary())
		if lines := examples[n.Path()]; len(lines) > 0 {
			fmt.Fprintf(&b, "\n<!-- not run: a test of the help pages does -->\n```sh\n%s\n```\n", strings.Join(lines, "\n"))
		}
		if len(n.Positional) > 0 {
			b.WriteString("\n| argument | is |\n|---|---|\n")
			for _, p := range n.Positional {
				fmt.Fprintf(&b, "| `%s` | %s |\n", p.Summary(), cell(p.Help))
			}
		}
		var own []*kong.Flag
		byGroup, order := map[string][]*kong.Flag{}, []string(nil)
		for _, f := range n.Flags {
			switch {
			case f.Hidden:
			case f.Group == nil:
				own = append(own, f)
			default:
				name := strings.TrimSuffix(f.Group.Title, ":")
				if byGroup[name] == nil {
					order = append(order, name)
				}
				byGroup[name] = append(byGroup[name], f)
			}
		}
		if len(own) > 0 {
			b.WriteString("\n" + table(own))
		}
		if len(order) > 0 {
			fmt.Fprintf(&b, "\nAnd the flags of %s.\n", links(order))
		}
		for name, flags := range byGroup {
			text := table(flags)
			if had := groups[name]; had != "" && had != text {
				t.Errorf("the group %q of %s differs from that of another command", name, title)
			}
			groups[name] = text
		}
	}
	b.WriteString("\n# Flags of several commands\n")
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", name, groups[name])
	}
	return b.String()
}

// links are references to headings.
func links(names []string) string {
	var out []string
	for _, n := range names {
		anchor := strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(n, "&", "")), " ", "-")
		out = append(out, fmt.Sprintf("[%s](#%s)", n, anchor))
	}
	return strings.Join(out, ", ")
}

func table(flags []*kong.Flag) string {
	var b strings.Builder
	b.WriteString("| flag | default | is |\n|---|---|---|\n")
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Tag.Negatable != "" {
			name = "--[no-]" + f.Name
		}
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			name += "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
		}
		mark, value := "", ""
		if f.Tag.Has("nokey") {
			mark = " *"
		}
		if f.HasDefault && f.Default != "" {
			value = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", cell(name), mark, cell(value), cell(f.Help))
	}
	return b.String()
}

// cell is text in a table of Markdown.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}

package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// errHelp ends parsing after a text was printed that a flag asked for.
var errHelp = errors.New("help was shown")

// helpFlag is --help: one screen, with examples and the flags that most users want.
type helpFlag bool

// BeforeReset prints the help of the command that was named so far.
func (helpFlag) BeforeReset(ctx *kong.Context, h *host) error { return h.help(ctx, false) }

// IgnoreDefault keeps the hook from running unasked.
func (helpFlag) IgnoreDefault() {}

// helpAllFlag is --help-all: every flag.
type helpAllFlag bool

// BeforeReset prints the whole help of the command that was named so far.
func (helpAllFlag) BeforeReset(ctx *kong.Context, h *host) error { return h.help(ctx, true) }

// IgnoreDefault keeps the hook from running unasked.
func (helpAllFlag) IgnoreDefault() {}

// versionFlag is --version.
type versionFlag bool

// BeforeReset prints the build.
func (versionFlag) BeforeReset(h *host) error {
	if err := (&versionCmd{}).Run(h); err != nil {
		return err
	}
	return errHelp
}

// IgnoreDefault keeps the hook from running unasked.
func (versionFlag) IgnoreDefault() {}

// helpCmd is `hermes help`.
type helpCmd struct {
	Words []string `arg:"" optional:"" name:"command" help:"Command, such as 'runs show'."`
}

// withHelp turns what asks for help without a flag into --help: no words at all, and the
// command help. So help needs no settings that can be read.
func withHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help" && !slices.ContainsFunc(args[1:], isFlag):
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") }

// Run is reached when flags come before the word help.
func (c *helpCmd) Run(h *host) error {
	return h.dispatch(append(slices.Clone(c.Words), "--help"), func(string) {})
}

// help prints the help of the command that ctx holds, and ends the parsing.
func (h *host) help(ctx *kong.Context, all bool) error {
	n := ctx.Selected()
	if n == nil {
		n = ctx.Model.Node
	}
	p := pages()[n.Path()]
	if len(p.examples) > 0 {
		n.Detail = "Examples:\n\n    " + strings.Join(p.examples, "\n    ")
	}
	more := 0
	if !all {
		more = shorten(n, p.usual)
	}
	err := ctx.PrintUsage(false)
	if err == nil && more > 0 {
		_, err = fmt.Fprintf(h.Stdio.Out, "\n%d more flags: %s --help-all\n", more, n.FullPath())
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // a pager that was left has seen enough
		return err
	}
	return errHelp
}

// shorten hides flags that are not usual, and returns how many. Those of every command
// are shown by `hermes --help`. A command without a list shows all its flags.
func shorten(n *kong.Node, usual []string) (hidden int) {
	for at := n; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			keep := at == n && (len(usual) == 0 || slices.Contains(usual, f.Name))
			if !keep && !f.Hidden {
				f.Hidden = true
				hidden++
			}
			f.Group = nil
		}
	}
	return hidden
}

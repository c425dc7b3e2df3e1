package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"hermes/configs"
)

// template is the text of a fresh config.yaml: every setting of every command, its help,
// and its default, all commented out.
func template(k *kong.Kong) string {
	var b strings.Builder
	b.WriteString("# Settings of hermes. A run file given with -c, HERMES_* variables and flags win over these.\n")
	b.WriteString("# Secrets belong into the file .env beside this one, as NAME=value lines.\n")
	seen := map[string]bool{}
	var flags []*kong.Flag
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, f := range n.Flags {
			if !seen[f.Name] && !f.Hidden && configs.IsKey(f) && !configs.SecretName(f.Name) {
				seen[f.Name] = true
				flags = append(flags, f)
			}
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(k.Model.Node)
	slices.SortFunc(flags, func(a, b *kong.Flag) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range flags {
		fmt.Fprintf(&b, "\n# %s\n# %s: %s\n", strings.ReplaceAll(f.Help, "\n", " "), f.Name, sample(f))
	}
	return b.String()
}

// sample is the default of a flag as YAML, or a hint of what goes there.
func sample(f *kong.Flag) string {
	if f.HasDefault && f.Default != "" {
		return f.Default
	}
	if f.IsBool() {
		return "false"
	}
	return strings.ToUpper(f.FormatPlaceHolder())
}

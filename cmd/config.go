package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"hermes/configs"
	"hermes/internal/nearest"
)

// configCmd is `hermes config`.
type configCmd struct {
	Show  configShow  `cmd:"" help:"Print every resolved value and the layer that it comes from."`
	Init  configInit  `cmd:"" help:"Write a commented config.yaml."`
	Check configCheck `cmd:"" help:"Check the user's file, the environment and run files; start nothing."`
	Path  configPath  `cmd:"" help:"Print where the configuration is looked for."`
}

type configShow struct {
	Command []string `arg:"" optional:"" help:"Command whose settings are shown, such as batch; all settings without it."`
	Changed bool     `nokey:"" help:"Only what differs from its default."`
	JSON    bool     `name:"json" nokey:"" help:"A JSON array."`
}

// Run resolves the settings of the named command below its flags.
func (c *configShow) Run(h *host) error {
	node, err := findCommand(h.kong.Model.Node, c.Command)
	if err != nil {
		return err
	}
	layers, err := h.loadFor(node, runFileOf(h.parsed))
	if err != nil {
		return err
	}
	settings := []configs.Setting{}
	for _, s := range layers.Settings(nil) {
		if !c.Changed || s.Layer != configs.FromDefault {
			s.Value = h.Redact.String(s.Value)
			settings = append(settings, s)
		}
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, settings)
	}
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 8, 2, ' ', 0)
	for _, s := range settings {
		from := string(s.Layer)
		if s.Source != from {
			from += " (" + s.Source + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, from)
	}
	return w.Flush()
}

// loadFor reads the layers of another command than the running one.
func (h *host) loadFor(node *kong.Node, runFile string) (*configs.Layers, error) {
	preset := ""
	for _, f := range h.parsed.Flags() {
		if f.Name == "preset" && flagGiven(h.parsed, "preset") {
			preset = f.Target.String()
		}
	}
	l, err := configs.Load(configs.Options{App: h.kong.Model, Command: node, Env: h.Env, RunFile: runFile, Preset: preset, Secrets: h.Redact})
	if err != nil {
		return nil, &Exit{Code: ExitUsage, Err: err}
	}
	return l, nil
}

func runFileOf(ctx *kong.Context) string {
	for _, f := range ctx.Flags() {
		if f.Name == "config" {
			return f.Target.String()
		}
	}
	return ""
}

func flagGiven(ctx *kong.Context, name string) bool {
	return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name && !p.Resolved })
}

// findCommand walks down from n by names; none gives nil, which means all commands.
func findCommand(n *kong.Node, names []string) (*kong.Node, error) {
	if len(names) == 0 {
		return nil, nil
	}
	for _, name := range names {
		var have []string
		var next *kong.Node
		for _, c := range n.Children {
			have = append(have, c.Name)
			if c.Name == name {
				next = c
			}
		}
		if next == nil {
			near := ""
			if m := nearest.Name(name, have); m != "" {
				near = " (did you mean " + m + "?)"
			}
			return nil, Usage("no command %q%s", strings.Join(names, " "), near)
		}
		n = next
	}
	return n, nil
}

type configCheck struct {
	Files   []string `arg:"" optional:"" help:"Run files."`
	Command []string `name:"for" nokey:"" placeholder:"COMMAND" sep:" " help:"Command whose keys the run files may have; any command's without it."`
}

// Run reports every mistake; the exit code is 2 when there is one.
func (c *configCheck) Run(h *host) error {
	node, err := findCommand(h.kong.Model.Node, c.Command)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range append(c.Files, runFileOf(h.parsed)) {
		if f == "" {
			continue
		}
		if _, err := h.loadFor(node, f); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(h.Stdio.Out, "%s: ok\n", f)
	}
	if err := errors.Join(errs...); err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	if len(c.Files) == 0 {
		fmt.Fprintln(h.Stdio.Out, "ok")
	}
	return nil
}

type configPath struct {
	JSON bool `name:"json" nokey:"" help:"One JSON object."`
}

// Run prints the places, whether or not the files exist.
func (c *configPath) Run(h *host) error {
	if h.Env.Home == "" {
		return Usage("no home folder: neither HERMES_HOME nor HOME is set")
	}
	places := struct {
		Home   string `json:"home"`
		Config string `json:"config"`
		Env    string `json:"env"`
	}{h.Env.Home, filepath.Join(h.Env.Home, configs.UserFile), filepath.Join(h.Env.Home, ".env")}
	return h.result(c.JSON, places, "home    %s\nconfig  %s\nenv     %s\n", places.Home, places.Config, places.Env)
}

type configInit struct {
	Force bool `nokey:"" help:"Replace a file that exists."`
}

// Run writes $HERMES_HOME/config.yaml with every setting as a comment.
func (c *configInit) Run(h *host) error {
	if h.Env.Home == "" {
		return Usage("no home folder: neither HERMES_HOME nor HOME is set")
	}
	if err := os.MkdirAll(h.Env.Home, 0o700); err != nil {
		return Usage("create the home folder: %w", err)
	}
	file := filepath.Join(h.Env.Home, configs.UserFile)
	if _, err := os.Lstat(file); err == nil && !c.Force {
		return Usage("%s exists; --force replaces it", file)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Usage("look at the file: %w", err)
	}
	tmp := file + ".hermes-tmp"
	if err := os.WriteFile(tmp, []byte(template(h.kong)), 0o600); err != nil {
		return Usage("write the file: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return Usage("write the file: %w", errors.Join(err, os.Remove(tmp)))
	}
	_, err := fmt.Fprintln(h.Stdio.Out, file)
	return err
}

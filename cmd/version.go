package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// versionCmd is `hermes version`.
type versionCmd struct {
	JSON bool `name:"json" nokey:"" help:"One JSON object."`
}

// Build says which build this is.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // built from a changed checkout
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// BuildInfo reads what the Go toolchain stamped into the binary.
func BuildInfo() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Run prints the build.
func (c *versionCmd) Run(h *host) error {
	b := BuildInfo()
	if c.JSON {
		return printJSON(h.Stdio.Out, b)
	}
	commit := ""
	if len(b.Commit) > 12 {
		commit = b.Commit[:12] + ", "
	}
	_, err := fmt.Fprintf(h.Stdio.Out, "hermes %s (%s%s, %s)\n", b.Version, commit, b.Go, b.Platform)
	return err
}

// result prints what a command found: an object of JSON, or a text.
func (h *host) result(asJSON bool, object any, format string, a ...any) error {
	if asJSON {
		return printJSON(h.Stdio.Out, object)
	}
	_, err := fmt.Fprintf(h.Stdio.Out, format, a...)
	return err
}

// printJSON writes one value on one line, without HTML escapes.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

package cmd

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"hermes/envs"
	"hermes/envs/remote"
	"hermes/envs/skeleton"
)

type envNew struct {
	Name     string `arg:"" help:"Name: lower-case letters and digits."`
	Lang     string `enum:"hermes,python,javascript,go,shell" default:"hermes" help:"What it is written in: hermes is a Go package of this program; python, javascript, go and shell are separate programs."`
	Dir      string `default:"envs" placeholder:"DIR" help:"Where the folder of the environment is made."`
	Checkout string `placeholder:"DIR" help:"Sources of hermes, for a module outside of them (default: those that this program lies in)."`
}

// sources are the files of a new environment by path, and what to do with them.
type sources struct {
	files map[string]string
	next  string
}

// Run writes the sources into a folder that must not be there yet.
func (c *envNew) Run(h *host) error {
	if _, err := envs.Find(h.Parts.Envs, c.Name); err == nil {
		return Usage("there is an environment %s already", c.Name)
	}
	dir := filepath.Join(c.Dir, c.Name)
	if _, err := os.Lstat(dir); err == nil {
		return Usage("%s is there already", dir)
	}
	src, err := c.sources(dir, h.Program)
	if err != nil {
		return Usage("%w", err)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return inputError(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return inputError(err)
	}
	for name, text := range src.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return inputError(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return inputError(err)
		}
	}
	fmt.Fprintf(h.Stdio.Out, "%s\n", dir)
	fmt.Fprintf(h.Stdio.Err, "hermes: %s\n", src.next)
	return nil
}

// sources makes the files for the folder dir. executable is the path of this program.
func (c *envNew) sources(dir, executable string) (sources, error) {
	slashed := filepath.ToSlash(dir)
	if c.Lang != "hermes" {
		files, program, err := remote.Files(c.Lang, c.Name)
		return sources{files, "now try: hermes env check " + path.Join(slashed, program)}, err
	}
	if err := skeleton.CheckName(c.Name); err != nil {
		return sources{}, err
	}
	home, err := goModule(dir)
	if err != nil {
		return sources{}, err
	}
	if home.hermes {
		if c.Checkout != "" {
			return sources{}, fmt.Errorf("--checkout %s: %s lies in the module %s, which has hermes already", c.Checkout, dir, home.path)
		}
		files, err := skeleton.Files(c.Name, path.Join(home.path, home.rel))
		next := fmt.Sprintf("try it with: go test ./%s; then add %s.Kind to Parts.Envs of your program", slashed, c.Name)
		if home.path == "hermes" {
			next = fmt.Sprintf("try it with: go test ./%s; then add %s.Kind to the list of environments, the function Envs", slashed, c.Name)
		}
		return sources{files, next}, err
	}
	checkout := c.Checkout
	if checkout == "" {
		checkout = checkoutOf(executable)
		if checkout == "" {
			return sources{}, errors.New("the new environment needs the sources of hermes, which are not published: name a clone with --checkout DIR (or write a separate program: --lang python)")
		}
	}
	checkout, err = filepath.Abs(checkout)
	if err != nil {
		return sources{}, err
	}
	files, err := skeleton.Module(c.Name, checkout)
	if errors.Is(err, skeleton.ErrNoCheckout) {
		err = fmt.Errorf("--checkout %w", err)
	}
	return sources{files, fmt.Sprintf("a module that uses the sources in %s; try it with: cd %s && go test . && go run ./cmd/hermes env check %s", checkout, dir, c.Name)}, err
}

// enclosing is the Go module that a folder lies in.
type enclosing struct {
	path   string // import path of the module; "" without a module
	rel    string // of the folder, from the module's root
	hermes bool   // the module is hermes, or requires it
}

var (
	moduleLine   = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)
	hermesNeeded = regexp.MustCompile(`(?m)^(?:require)?\s+hermes\s+v`)
)

// goModule finds the module of a folder that need not exist.
func goModule(dir string) (enclosing, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return enclosing{}, err
	}
	for at := abs; ; at = filepath.Dir(at) {
		raw, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil {
			m := moduleLine.FindSubmatch(raw)
			if m == nil {
				return enclosing{}, fmt.Errorf("%s: no module line", filepath.Join(at, "go.mod"))
			}
			rel, err := filepath.Rel(at, abs)
			name := string(m[1])
			return enclosing{path: name, rel: filepath.ToSlash(rel), hermes: name == "hermes" || hermesNeeded.Match(raw)}, err
		}
		if at == filepath.Dir(at) {
			return enclosing{}, nil
		}
	}
}

// checkoutOf is the checkout that a program was built in, or "".
func checkoutOf(executable string) string {
	for at := filepath.Dir(executable); executable != ""; at = filepath.Dir(at) {
		raw, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if m := moduleLine.FindSubmatch(raw); err == nil && m != nil && string(m[1]) == "hermes" {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
	return ""
}

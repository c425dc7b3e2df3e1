package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"regexp"
	"slices"
	"strings"
)

// outside are the names through which a process is reached.
func outside() []string {
	return []string{"os.Stdin", "os.Stdout", "os.Stderr", "os.Args", "os.Getenv", "os.LookupEnv", "os.Environ", "os.Setenv",
		"os.Unsetenv", "os.ExpandEnv", "os.Clearenv", "signal.Notify", "fmt.Print", "fmt.Printf", "fmt.Println", "log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf"}
}

// Process finds uses of the streams, arguments, environment and signals of the process
// outside of cmd.
func Process(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		if under(f.Dir(), "cmd") {
			continue
		}
		eachUse(f, func(name string, n ast.Node) {
			if slices.Contains(outside(), name) && !excused(process(), f.Path, name) {
				out = append(out, t.at(f, n.Pos(), "%s belongs to cmd.Main", name))
			}
		})
	}
	return out
}

// hostFiles are calls that touch files of the host.
func hostFiles() []string {
	return []string{"os.Open", "os.OpenFile", "os.OpenRoot", "os.Create", "os.CreateTemp", "os.ReadFile", "os.WriteFile", "os.ReadDir",
		"os.Mkdir", "os.MkdirAll", "os.MkdirTemp", "os.Remove", "os.RemoveAll", "os.Rename", "os.Stat", "os.Lstat", "os.Chdir", "os.Chmod",
		"os.Symlink", "os.Link", "os.Truncate", "os.DirFS", "os.StartProcess", "filepath.Walk", "filepath.WalkDir", "filepath.Glob", "filepath.EvalSymlinks"}
}

// HostReach finds tools that act on the host instead of through their box.
func HostReach(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		if !under(f.Dir(), "rollout/tool/box", "internal/tools") {
			continue
		}
		for _, im := range f.AST.Imports {
			if p := importPath(im); (p == "os/exec" || p == "syscall" || p == "io/ioutil") && !excused(host(), f.Path, p) {
				out = append(out, t.at(f, im.Pos(), "a tool acts through its box, not through %s", p))
			}
		}
		eachUse(f, func(name string, n ast.Node) {
			if slices.Contains(hostFiles(), name) && !excused(host(), f.Path, name) {
				out = append(out, t.at(f, n.Pos(), "a tool acts through its box, not through %s", name))
			}
		})
	}
	return out
}

// opening are the names of calls that open files, whatever they belong to: a package, a root, a
// file system.
func opening() []string {
	return []string{"Open", "OpenFile", "OpenRoot", "OpenInRoot", "Openat", "Openat2", "OpenTree", "Creat", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir",
		"DirFS", "FS", "Walk", "WalkDir", "CopyFS"}
}

// inBox are the packages of the server in a box.
func inBox() []string {
	return []string{"backends/slotd/host", "backends/slotd/server", "backends/slotd/pipes", "backends/slotd/procs"}
}

// Opens finds files that the server in a box opens elsewhere than in its one place: what commands
// put where a file is looked for, such as a FIFO, must never be waited for.
func Opens(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		if !under(f.Dir(), inBox()...) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(opening(), s.Sel.Name) {
				return true
			}
			name := s.Sel.Name
			if x, ok := s.X.(*ast.Ident); ok {
				name = x.Name + "." + name
			}
			if !excused(opens(), f.Path, name) {
				out = append(out, t.at(f, s.Pos(), "files are opened in open.go, not by %s", name))
			}
			return true
		})
	}
	return out
}

// servers are the ways to answer HTTP without a guard.
func servers() []string {
	return []string{"http.Server", "http.ListenAndServe", "http.ListenAndServeTLS", "http.Serve", "http.ServeTLS", "fcgi.Serve", "cgi.Serve"}
}

// Servers finds servers of HTTP that are behind no guard: every page that a browser on
// the machine shows could talk to them.
func Servers(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		if under(f.Dir(), "internal/guard") {
			continue
		}
		eachUse(f, func(name string, n ast.Node) {
			if slices.Contains(servers(), name) && !excused(unguarded(), f.Path, name) {
				out = append(out, t.at(f, n.Pos(), "%s has no guard in front; serve through internal/guard", name))
			}
		})
	}
	return out
}

// Guarded lists the files that make a guard: where our servers are.
func Guarded(t *Tree) []string {
	var out []string
	for _, f := range t.code() {
		eachUse(f, func(name string, _ ast.Node) {
			if (name == "guard.New" || name == "guard.Local") && !slices.Contains(out, f.Path) {
				out = append(out, f.Path)
			}
		})
	}
	return out
}

// eachUse visits package.Name selectors by the last element of the package's path.
func eachUse(f *File, visit func(name string, n ast.Node)) {
	names := imports(f)
	ast.Inspect(f.AST, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil {
			if p := names[x.Name]; p != "" {
				visit(p[strings.LastIndexByte(p, '/')+1:]+"."+s.Sel.Name, s)
			}
		}
		return true
	})
}

// words are what may stand in no file. They are put together here so that this file
// does not hold them.
func words() []*regexp.Regexp {
	dot := `\.`
	return []*regexp.Regexp{
		regexp.MustCompile(`(?:^|[^\w.\-}/])/(?:wor` + `k|roo` + `t)/`),
		regexp.MustCompile(`proxy` + dot + `golang` + dot + `org|sum` + dot + `golang` + dot + `org`),
		regexp.MustCompile(`pypi` + dot + `org|pythonhosted` + dot + `org`),
		regexp.MustCompile(`registry` + dot + `npmjs|registry` + dot + `yarnpkg`),
		regexp.MustCompile(`static` + dot + `crates|index` + dot + `crates|rubygems` + dot + `org`),
		regexp.MustCompile(`deb` + dot + `debian` + dot + `org|archive` + dot + `ubuntu` + dot + `com`),
	}
}

// Words finds paths of somebody's machine and hosts of package registries, in every
// text file.
func Words(t *Tree) []Finding {
	var out []Finding
	patterns := words()
	for _, f := range t.Files {
		if binary(f.Raw) || f.Path == "go.sum" {
			continue
		}
		n := 0
		for line := range bytes.Lines(f.Raw) {
			n++
			for _, p := range patterns {
				if m := p.Find(line); m != nil && !excused(spoken(), f.Path, strings.TrimSpace(string(m))) {
					out = append(out, Finding{File: f.Path, Line: n, Text: fmt.Sprintf("%q may not be named here", bytes.TrimSpace(m))})
				}
			}
		}
	}
	return out
}

// Format finds Go files that gofmt would change.
func Format(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil {
			continue
		}
		want, err := format.Source(f.Raw)
		if err != nil {
			out = append(out, Finding{File: f.Path, Text: err.Error()})
		} else if !bytes.Equal(want, f.Raw) {
			out = append(out, Finding{File: f.Path, Text: "gofmt would change it"})
		}
	}
	return out
}

// DataPaths finds tests that look for the data beside the checkout by a path of their own: one
// that counts folders skips silently when its package moves.
func DataPaths(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil || !f.Test() || under(f.Dir(), "internal/realdata", "internal/house") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			b, ok := n.(*ast.BasicLit)
			if ok && (b.Value == `"shared"` || strings.Contains(b.Value, "../shared/")) {
				out = append(out, t.at(f, b.Pos(), "data beside the checkout is found by internal/realdata"))
			}
			return true
		})
	}
	return out
}

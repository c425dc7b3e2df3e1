package house

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// layered are the rooms in whose packages files form layers: no file uses what a file says
// that uses it in turn.
func layered() []string { return []string{"internal/settings", "internal/build", "internal/runs"} }

// Layers finds cycles between the files of the packages that have layers. A file uses
// another where it names what that declares: types, functions, constants, variables, and
// methods that are not exported and whose name is the only one in the package.
func Layers(t *Tree) []Finding {
	packages := map[string][]*File{}
	for _, f := range t.code() {
		if under(f.Dir(), layered()...) {
			packages[f.Dir()] = append(packages[f.Dir()], f)
		}
	}
	var out []Finding
	for _, files := range packages {
		uses := usesOf(files)
		for _, f := range files {
			if way := cycle(uses, f.Path); way != nil && slices.Min(way) == path.Base(f.Path) {
				out = append(out, Finding{File: f.Path, Text: "files use each other in a circle: " + strings.Join(way, " → ")})
			}
		}
	}
	return out
}

// usesOf lists for each file which others it uses.
func usesOf(files []*File) map[string][]string {
	names, methods := map[string]string{}, map[string]string{} // to the file
	for _, f := range files {
		for name := range f.AST.Scope.Objects {
			names[name] = f.Path
		}
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !fn.Name.IsExported() {
				if _, twice := methods[fn.Name.Name]; twice {
					methods[fn.Name.Name] = ""
				} else {
					methods[fn.Name.Name] = f.Path
				}
			}
		}
	}
	uses := map[string][]string{}
	for _, f := range files {
		use := func(file string) {
			if file != "" && file != f.Path && !slices.Contains(uses[f.Path], file) {
				uses[f.Path] = append(uses[f.Path], file)
			}
		}
		for _, id := range f.AST.Unresolved {
			use(names[id.Name])
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				use(methods[s.Sel.Name])
			}
			return true
		})
	}
	return uses
}

// cycle is a way from a file back to it; nil: there is none.
func cycle(uses map[string][]string, from string) []string {
	seen := map[string]bool{}
	var walk func(at string, way []string) []string
	walk = func(at string, way []string) []string {
		for _, next := range uses[at] {
			if next == from {
				return append(way, path.Base(from))
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if found := walk(next, append(slices.Clone(way), path.Base(next))); found != nil {
				return found
			}
		}
		return nil
	}
	return walk(from, []string{path.Base(from)})
}

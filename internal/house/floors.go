package house

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// floor is one line of the house plan. The first that fits a folder counts.
type floor struct {
	room  string // a folder with what is below it; with exact: it alone
	exact bool
	level int
	open  bool // rooms of this level may import each other
	each  bool // every folder in it is a room
}

// plan is who is where; imports go down, or sideways inside a room.
func plan() []floor {
	return []floor{
		{room: "examples", level: 11},
		{room: "cmd", level: 10, open: true},
		{room: "internal/runs/rollouts", level: 8}, // what those above share that roll out rows into a run directory
		{room: "internal/runs", level: 9, each: true},
		{room: "internal/build", level: 7},
		{room: "internal/settings", level: 6},
		{room: "internal", level: 5, open: true},
		{room: "rollout/tool", exact: true, level: 2},
		{room: "rollout", level: 4, open: true},
		{room: "envs", level: 3},
		{room: "parsers", level: 1},
		{room: "backends", level: 1},
		{room: "datasets", level: 1},
		{room: "trajectory", level: 0},
		{room: "configs", level: 0},
		{room: "python", level: 0},
	}
}

func floorOf(dir string) (floor, bool) {
	for _, f := range plan() {
		if dir == f.room || !f.exact && under(dir, f.room) {
			if rest, below := strings.CutPrefix(dir, f.room+"/"); f.each && below {
				first, _, _ := strings.Cut(rest, "/")
				f.room += "/" + first
			}
			return f, true
		}
	}
	return floor{}, false
}

// libraries are folders under internal that import nothing of ours but other libraries: every
// floor may use them.
func libraries(t *Tree) map[string]bool {
	lib := map[string]bool{}
	for _, f := range t.code() {
		if strings.HasPrefix(f.Dir(), "internal/") {
			lib[f.Dir()] = true
		}
	}
	for again := true; again; {
		again = false
		for _, f := range t.code() {
			for _, im := range f.AST.Imports {
				if dir, own := ours(importPath(im)); lib[f.Dir()] && own && !lib[dir] {
					lib[f.Dir()], again = false, true
				}
			}
		}
	}
	return lib
}

// Imports finds imports that go up or into another room of the same floor.
func Imports(t *Tree) []Finding {
	lib := libraries(t)
	var out []Finding
	for _, f := range t.code() {
		from, ok := floorOf(f.Dir())
		if !ok {
			out = append(out, Finding{File: f.Path, Text: "folder " + f.Dir() + " stands on no floor of the plan"})
			continue
		}
		for _, im := range f.AST.Imports {
			dir, own := ours(importPath(im))
			if !own || lib[dir] || slices.Contains(upward(), edge{f.Dir(), dir}) {
				continue
			}
			if why := climbs(f.Dir(), from, dir); why != "" {
				out = append(out, t.at(f, im.Pos(), "%s imports %s: %s", f.Dir(), dir, why))
			}
		}
	}
	return out
}

// climbs says why an import is not allowed, or "".
func climbs(dir string, from floor, target string) string {
	to, ok := floorOf(target)
	switch {
	case !ok:
		return "it stands on no floor of the plan"
	case dir == "trajectory":
		return "trajectory imports the standard library only"
	case to.level > from.level:
		return "that goes up"
	case to.level == from.level && !from.open && to.room != from.room:
		return "another room of the same floor"
	}
	return ""
}

// door names the rooms that may import a dependency.
type door struct {
	dependency string // import path or its beginning
	rooms      []string
	hidden     bool // and what these rooms export names none of its types
}

func doors() []door {
	return []door{
		{"google.golang.org/grpc", []string{"backends/modal"}, false},
		{"google.golang.org/protobuf", []string{"backends/modal"}, false},
		{"github.com/docker", []string{"backends/docker"}, true},
		{"github.com/moby/moby", []string{"backends/docker"}, true},
		{"github.com/hashicorp/nomad", []string{"backends/nomad"}, true},
		{"golang.org/x/crypto/ssh", []string{"backends/ssh"}, false},
		{"github.com/parquet-go/parquet-go", []string{"trajectory/columns", "datasets"}, true},
		{"github.com/daulet/tokenizers", []string{"parsers/tokenizer/hf"}, true},
		{"C", []string{"parsers/tokenizer/hf"}, false},
		{"modernc.org/sqlite", []string{"internal/knowledge", "envs/sql"}, true},
		{"github.com/mattn/go-sqlite3", []string{"internal/knowledge"}, true},
		{"github.com/schollz/progressbar", []string{"rollout/event/progress"}, true},
		{"github.com/prometheus", []string{"rollout/event/prom"}, false},
		{"go.opentelemetry.io", []string{"rollout/event/otel"}, false},
		{"github.com/alecthomas/kong", []string{"cmd", "configs"}, false},
		{"github.com/santhosh-tekuri/jsonschema", []string{"internal/schema"}, true},
		{"gopkg.in/yaml.v3", nil, false}, // no longer maintained: go.yaml.in/yaml/v3
	}
}

// Doors finds dependencies outside of the rooms that may have them, types of hidden ones in
// what these rooms export, and dependencies of the lowest floor beyond its own.
func Doors(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		for _, im := range f.AST.Imports {
			p := importPath(im)
			for _, d := range doors() {
				if (p == d.dependency || strings.HasPrefix(p, d.dependency+"/")) && !under(f.Dir(), d.rooms...) {
					out = append(out, t.at(f, im.Pos(), "%s belongs behind one door %v", p, d.rooms))
				}
			}
			if _, own := ours(p); own || !foreign(p) {
				continue
			}
			if f.Dir() == "trajectory" {
				out = append(out, t.at(f, im.Pos(), "trajectory imports the standard library only, not %s", p))
			}
			if f.Dir() == "configs" && !under(p, "github.com/alecthomas/kong", "go.yaml.in/yaml/v3") {
				out = append(out, t.at(f, im.Pos(), "configs has kong and yaml, not %s", p))
			}
		}
	}
	for _, d := range doors() {
		if !d.hidden {
			continue
		}
		for _, room := range d.rooms {
			out = append(out, exportedTypes(t, room, d.dependency)...)
		}
	}
	return out
}

func foreign(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.Contains(first, ".")
}

// exportedTypes finds exported declarations of a room that name a dependency's types.
func exportedTypes(t *Tree, room, dependency string) []Finding {
	var out []Finding
	for _, f := range t.code() {
		if !under(f.Dir(), room) {
			continue
		}
		names := imports(f)
		look := func(n ast.Node) {
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && strings.HasPrefix(names[x.Name], dependency) {
						out = append(out, t.at(f, s.Pos(), "an exported signature names %s.%s", path.Base(dependency), s.Sel.Name))
					}
				}
				return true
			})
		}
		for _, d := range f.AST.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					look(d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
						lookType(ts.Type, look)
					}
				}
			}
		}
	}
	return out
}

// lookType looks at what a type shows: the exported fields of a struct, all of others.
func lookType(e ast.Expr, look func(ast.Node)) {
	s, ok := e.(*ast.StructType)
	if !ok {
		look(e)
		return
	}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.IsExported() }) {
			look(f.Type)
		}
	}
}

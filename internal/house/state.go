package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Docs finds packages without a package doc, or with one that does not begin as godoc
// wants it.
func Docs(t *Tree) []Finding {
	has, first := map[string]bool{}, map[string]*File{}
	for _, f := range t.code() {
		key := f.Dir()
		if first[key] == nil {
			first[key] = f
		}
		if text := f.AST.Doc.Text(); strings.HasPrefix(text, "Package "+f.AST.Name.Name+" ") || f.AST.Name.Name == "main" && strings.HasPrefix(text, "Command ") {
			has[key] = true
		}
	}
	var out []Finding
	for dir, f := range first {
		if !has[dir] {
			out = append(out, Finding{File: f.Path, Line: 1, Text: "package " + f.AST.Name.Name + " in " + dir + " has no package doc"})
		}
	}
	return out
}

// Inits finds init functions and imports for their side effects.
func Inits(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.code() {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, t.at(f, fn.Pos(), "an init function"))
			}
		}
		for _, im := range f.AST.Imports {
			if im.Name != nil && im.Name.Name == "_" && importPath(im) != "embed" {
				out = append(out, t.at(f, im.Pos(), "a blank import of %s", importPath(im)))
			}
		}
	}
	return out
}

// global is one package-level variable.
type global struct {
	file *File
	spec *ast.ValueSpec
	name *ast.Ident
}

// Variables finds package-level variables that can change: code assigns to them or takes
// their address, or their type is made to change. Errors, compiled regexps, embedded
// files, tables and registry values that nobody assigns to pass.
func Variables(t *Tree) []Finding {
	byDir := map[string]map[string]global{}
	var out []Finding
	for _, f := range t.code() {
		if byDir[f.Dir()] == nil {
			byDir[f.Dir()] = map[string]global{}
		}
		for _, g := range globals(f) {
			byDir[f.Dir()][g.name.Name] = g
			if why := changing(g); why != "" && !excused(mutable(), f.Path, g.name.Name) {
				out = append(out, t.at(f, g.name.Pos(), "variable %s can change: %s", g.name.Name, why))
			}
		}
	}
	for _, f := range t.Files {
		if f.AST != nil {
			out = append(out, writes(t, f, byDir)...)
		}
	}
	return out
}

func globals(f *File) []global {
	var out []global
	for _, d := range f.AST.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if embedded(g.Doc) || embedded(v.Doc) {
				continue
			}
			for _, n := range v.Names {
				if n.Name != "_" {
					out = append(out, global{file: f, spec: v, name: n})
				}
			}
		}
	}
	return out
}

func embedded(c *ast.CommentGroup) bool {
	return c != nil && slices.ContainsFunc(c.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// changing says why a declaration alone shows that a variable is meant to change.
func changing(g global) string {
	if len(g.spec.Values) == 0 {
		if t := typeName(g.spec.Type); t != "" {
			return "it is declared without a value, as " + t
		}
		return "it is declared without a value"
	}
	for _, v := range g.spec.Values {
		if u, ok := v.(*ast.UnaryExpr); ok && u.Op == token.AND {
			v = u.X
		}
		switch v := v.(type) {
		case *ast.CompositeLit:
			if t := typeName(v.Type); strings.HasPrefix(t, "sync.") || strings.HasPrefix(t, "atomic.") {
				return "it is a " + t
			}
		case *ast.CallExpr:
			switch name := typeName(v.Fun); name {
			case "make", "new":
				return "it is made empty"
			}
		}
	}
	return ""
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.MapType:
		return "map"
	}
	return ""
}

// writes finds assignments to the package-level variables of the file's own package and
// of packages that it imports.
func writes(t *Tree, f *File, byDir map[string]map[string]global) []Finding {
	var out []Finding
	names := imports(f)
	hit := func(e ast.Expr, how string) {
		g, ok := target(e, f, names, byDir)
		if ok && !excused(mutable(), g.file.Path, g.name.Name) {
			out = append(out, t.at(f, e.Pos(), "variable %s of %s %s", g.name.Name, g.file.Dir(), how))
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					hit(e, "is assigned to")
				}
			}
		case *ast.IncDecStmt:
			hit(n.X, "is assigned to")
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				hit(n.Key, "is assigned to")
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
				hit(n.Args[0], "is emptied")
			}
		}
		return true
	})
	return out
}

// target finds the package-level variable at the root of an expression such as
// table[k].field.
func target(e ast.Expr, f *File, names map[string]string, byDir map[string]map[string]global) (global, bool) {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok && id.Obj == nil {
				if dir, own := ours(names[id.Name]); own {
					g, ok := byDir[dir][x.Sel.Name]
					return g, ok
				}
			}
			e = x.X
		case *ast.Ident:
			g, ok := byDir[f.Dir()][x.Name]
			// A resolved name is the variable only if its declaration is this one; an
			// unresolved one is in another file of the package.
			if ok && (x.Obj == nil && g.file != f || x.Obj != nil && x.Obj.Decl == g.spec) && g.file.AST.Name.Name == f.AST.Name.Name {
				return g, true
			}
			return global{}, false
		default:
			return global{}, false
		}
	}
}

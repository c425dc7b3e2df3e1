package house

import "go/ast"

// Sleeps finds tests that wait by the clock: time.Sleep is only in functions that run
// a bubble of testing/synctest, where time is simulated.
func Sleeps(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil || !f.Test() {
			continue
		}
		names := imports(f)
		for _, d := range f.AST.Decls {
			var sleeps []*ast.SelectorExpr
			bubble := false
			ast.Inspect(d, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok {
					switch {
					case names[pkg.Name] == "time" && sel.Sel.Name == "Sleep":
						sleeps = append(sleeps, sel)
					case names[pkg.Name] == "testing/synctest" && sel.Sel.Name == "Test":
						bubble = true
					}
				}
				return true
			})
			if bubble {
				continue
			}
			for _, s := range sleeps {
				out = append(out, t.at(f, s.Pos(), "a test that sleeps outside a bubble of testing/synctest; wait for an event"))
			}
		}
	}
	return out
}

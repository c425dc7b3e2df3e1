package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPatternsCompile: patterns of package late are compiled when they are used, so each
// text is compiled here.
func TestPatternsCompile(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return skip(err)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) != 1 {
				return true
			}
			if fun, ok := c.Fun.(*ast.SelectorExpr); !ok || fun.Sel.Name != "Regexp" {
				return true
			} else if in, ok := fun.X.(*ast.Ident); !ok || in.Name != "late" {
				return true
			}
			if text, ok := constant(c.Args[0]); ok {
				seen++
				if _, err := regexp.Compile(text); err != nil {
					t.Errorf("%s: %v", set.Position(c.Pos()), err)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 200 {
		t.Errorf("%d patterns, %v", seen, err)
	}
}

func skip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}

// constant is the text of string literals that are joined.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, ok := constant(e.X)
		b, ok2 := constant(e.Y)
		return a + b, ok && ok2
	}
	return "", false
}

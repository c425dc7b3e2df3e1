package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"unicode/utf8"
)

// idiom is a word that the style page gives up, and how often it is still there. The number
// only goes down: who removes some lowers it, and at zero it stays there.
type idiom struct {
	word  string // a regular expression
	say   string // in place of it
	still int
}

// Idioms counts words of a private idiom in code and pages. A count above its number, or far
// below it, is a finding.
func Idioms(t *Tree) []Finding { return countIdioms(t, idioms()) }

func countIdioms(t *Tree, list []idiom) []Finding {
	var out []Finding
	for _, i := range list {
		re := regexp.MustCompile(`(?i)\b(` + i.word + `)\b`)
		n := 0
		var last Finding
		for _, f := range t.Files {
			if !prose(f) {
				continue
			}
			for _, at := range re.FindAllIndex(f.Raw, -1) {
				n++
				last = Finding{File: f.Path, Line: 1 + bytes.Count(f.Raw[:at[0]], []byte("\n"))}
			}
		}
		switch {
		case n > i.still:
			last.Text = fmt.Sprintf("%q is there %d times, and %d are allowed: say %s", i.word, n, i.still, i.say)
			out = append(out, last)
		case n < i.still-10:
			out = append(out, Finding{File: "internal/house/exceptions.go", Text: fmt.Sprintf("%q is there %d times only: lower its number from %d", i.word, n, i.still)})
		}
	}
	return out
}

// prose reports whether people read the file: code and pages of ours, not data of tests.
func prose(f *File) bool {
	if strings.Contains(f.Path, "testdata/") || under(f.Dir(), "internal/house") {
		return false
	}
	return f.AST != nil || strings.HasSuffix(f.Path, ".md")
}

// StateInIf finds conditions that change a variable first: if n++; n > 3. An error that is
// assigned and looked at is the usual form and stays.
func StateInIf(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.IfStmt); ok && changesState(s.Init) {
				out = append(out, t.at(f, s.If, "a change of state inside an if: give it a line before"))
			}
			return true
		})
	}
	return out
}

func changesState(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		last, ok := s.Lhs[len(s.Lhs)-1].(*ast.Ident)
		return s.Tok != token.DEFINE && !(ok && last.Name == "err")
	}
	return false
}

// WideAssignments counts assignments of more than two values on a line.
func WideAssignments(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.AssignStmt); ok && len(s.Lhs) > 2 && len(s.Rhs) > 2 {
				out = append(out, t.at(f, s.Pos(), "an assignment of %d values: a line for each", len(s.Rhs)))
			}
			return true
		})
	}
	return atMost(out, wideAssignments)
}

// Longest line of a test, in columns with tabs of four.
const testColumns = 160

// LongTests counts lines of tests over 160 columns. A line is excused whose length is that of
// one text (over 90 bytes), or that lists texts (four and more).
func LongTests(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if f.AST == nil || !f.Test() {
			continue
		}
		texts := textLines(t, f)
		for i, line := range bytes.Split(f.Raw, []byte("\n")) {
			columns := utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t"))
			if columns > testColumns && !texts[i+1] {
				out = append(out, Finding{File: f.Path, Line: i + 1, Text: fmt.Sprintf("%d columns: a row of a table has a line for each field", columns)})
			}
		}
	}
	return atMost(out, longTests)
}

// textLines are the lines of a file that may be long because of the texts in them.
func textLines(t *Tree, f *File) map[int]bool {
	lines := map[int]bool{}
	many := map[int]int{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		b, ok := n.(*ast.BasicLit)
		if !ok || b.Kind != token.STRING {
			return true
		}
		from := t.Set.Position(b.Pos()).Line
		to := t.Set.Position(b.End()).Line
		many[from]++
		for l := from; l <= to; l++ {
			lines[l] = lines[l] || from != to || len(b.Value) > 90 || many[from] >= 4
		}
		return true
	})
	return lines
}

// atMost lets a known number of findings pass, and asks for a lower one where they became
// fewer.
func atMost(list []Finding, known int) []Finding {
	switch {
	case len(list) > known:
		return list
	case len(list) < known-10:
		return []Finding{{File: "internal/house/exceptions.go", Text: fmt.Sprintf("%d findings only: lower the number from %d", len(list), known)}}
	}
	return nil
}

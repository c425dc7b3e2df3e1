package sql

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// kinds are the questions by level, from 1.
var kinds = [...]string{"filter", "join", "aggregate", "group", "subquery", "window"}

// domain is a schema, what fills it, and what may be asked about it.
type domain struct {
	name   string
	schema []string
	fill   func(r *rand.Rand, f *filler)
	asks   map[string][]func(r *rand.Rand) question // by kind; none may look at data
}

// question is asked of any database of its domain.
type question struct {
	text    string
	sql     string // the reference query
	ordered bool   // the text asks for an order, which leaves no ties
}

// builtin lists the domains. A new one is a function and a line here.
func builtin() []domain { return []domain{shop(), library(), flights(), clinic()} }

// statements make the database.
func (d domain) statements(r *rand.Rand) []string {
	f := &filler{rows: map[string][]string{}}
	d.fill(r, f)
	list := append([]string{}, d.schema...)
	for _, name := range f.tables {
		list = append(list, "INSERT INTO "+name+" VALUES "+strings.Join(f.rows[name], ", "))
	}
	return list
}

// filler collects rows. A table is filled by one statement: SQLite takes a tenth of the time
// that it needs for a statement a row.
type filler struct {
	tables []string // in the order of their first rows
	rows   map[string][]string
}

// add writes one row; nil is NULL.
func (f *filler) add(name string, values ...any) {
	list := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			list[i] = "NULL"
		case string:
			list[i] = "'" + strings.ReplaceAll(v, "'", "''") + "'"
		case float64:
			list[i] = fmt.Sprintf("%.2f", v)
		default:
			list[i] = fmt.Sprint(v)
		}
	}
	if f.rows[name] == nil {
		f.tables = append(f.tables, name)
	}
	f.rows[name] = append(f.rows[name], "("+strings.Join(list, ", ")+")")
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// Words of all domains. Questions name only these, so that they can be asked of any
// database.
var (
	cities  = strings.Fields("Aarhus Bergen Cork Delft Evora Gent Porto Turin")
	firsts  = strings.Fields("Ana Ben Chi Dana Emil Farah Goro Hilde Ines Jon Kira Leo Mona Nils Oda Pia Quin Rosa Sven Tara")
	lasts   = strings.Fields("Adler Brook Costa Diaz Engel Fuchs Grau Holm Ivers Jansen Kovac Lund Moreau Novak Olsen Petit")
	genres  = strings.Fields("crime essay fantasy history poetry travel")
	lands   = strings.Fields("Belgium Chile Ghana India Japan Norway")
	goods   = strings.Fields("books garden games kitchen music tools")
	skills  = strings.Fields("cardiology dermatology neurology paediatrics radiology")
	payers  = strings.Fields("Alpha Borealis Concord")
	drugs   = strings.Fields("amoxil brufen cetrin doxol ezetrol")
	classes = strings.Fields("economy premium business")
)

func person(r *rand.Rand) string { return pick(r, firsts) + " " + pick(r, lasts) }

// people gives n names of which no two are equal.
func people(r *rand.Rand, n int) []string {
	seen := map[string]bool{}
	var out []string
	for len(out) < n {
		if p := person(r); !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// date is a day from January of one year to December of another.
func date(r *rand.Rand, from, to int) string {
	return fmt.Sprintf("%d-%02d-%02d", from+r.IntN(to-from+1), 1+r.IntN(12), 1+r.IntN(28))
}

// maybe gives v, or NULL once in n.
func maybe(r *rand.Rand, n int, v any) any {
	if r.IntN(n) == 0 {
		return nil
	}
	return v
}

// ask builds the maker of a question from texts with the same verbs.
func ask(text, query string, args func(r *rand.Rand) (forText, forQuery []any)) func(*rand.Rand) question {
	return func(r *rand.Rand) question {
		a, b := args(r)
		return question{text: fmt.Sprintf(text, a...), sql: fmt.Sprintf(query, b...)}
	}
}

// sorted marks the questions of a maker as asking for an order.
func sorted(f func(*rand.Rand) question) func(*rand.Rand) question {
	return func(r *rand.Rand) question {
		q := f(r)
		q.ordered = true
		return q
	}
}

// same gives text and query the same values.
func same(f func(r *rand.Rand) []any) func(*rand.Rand) ([]any, []any) {
	return func(r *rand.Rand) ([]any, []any) {
		a := f(r)
		return a, a
	}
}

package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/internal/late"
)

// mutant is a reference query with one thing wrong in it, as models get it wrong.
type mutant struct {
	sql  string
	must bool // it has another meaning on some data, so it has to fail; else it may mean the same
}

var (
	comparison = late.Regexp(`(avg\([^()]*\)\s*)?(>=|<=|>|<)(\s*)('[^']*'|\d)`)
	distinct   = late.Regexp(`DISTINCT `)
	having     = late.Regexp(` HAVING [^()]*(?:\([^()]*\)[^()]*)*?( ORDER BY |$)`)
	tieBreak   = late.Regexp(`(ORDER BY [\w.]+(?: DESC)?), [\w.]+(?: DESC)?`)
	conjunct   = late.Regexp(` AND [\w.]+ (?:IS (?:NOT )?NULL|(?:=|<>|>=|<=|>|<) (?:'[^']*'|[\d.]+))`)
	leftJoin   = late.Regexp(`LEFT JOIN`)
)

// flipped has the other relation at the boundary.
var flipped = map[string]string{">": ">=", ">=": ">", "<": "<=", "<=": "<"}

// mutants are the near misses of a query, one for each place where one can be made.
func mutants(query string) (list []mutant) {
	add := func(m []int, text string, must bool) {
		list = append(list, mutant{query[:m[0]] + text + query[m[1]:], must})
	}
	for _, m := range comparison.FindAllStringSubmatchIndex(query, -1) {
		// an average is equal to a whole number too seldom to ask for it
		add(m[4:6], flipped[query[m[4]:m[5]]], m[2] < 0)
	}
	for _, m := range distinct.FindAllStringIndex(query, -1) {
		add(m, "", true)
	}
	for _, m := range having.FindAllStringSubmatchIndex(query, -1) {
		add(m, query[m[2]:m[3]], true)
	}
	for _, m := range tieBreak.FindAllStringSubmatchIndex(query, -1) {
		add(m, query[m[2]:m[3]], false)
	}
	for _, m := range conjunct.FindAllStringIndex(query, -1) {
		add(m, "", false)
	}
	for _, m := range leftJoin.FindAllStringIndex(query, -1) {
		add(m, "JOIN", false)
	}
	return list
}

const (
	candidates = 12 // hidden databases among which those of a question are chosen
	mostHidden = 6  // of them that judge
)

// hidden is the n-th hidden database of a question, from 1. The first is as it was drawn;
// in the others a part of the rows is at the question's boundaries and in ties.
func (p *row) hidden(q question, n int) place {
	at := place{domain: p.Domain, seed: p.Seed, hidden: n}
	if n > 1 {
		at.plants = plants(p.Domain, q.sql, n)
	}
	return at
}

// choose picks hidden databases on which the mutants of a question fail. It returns none
// where one that must fail does not.
func (e *Env) choose(ctx context.Context, p *row, q question) (list []int, err error) {
	alive := mutants(q.sql)
	for n := 1; n <= candidates && (n == 1 || len(alive) > 0) && len(list) < mostHidden; n++ {
		at := p.hidden(q, n)
		want, err := e.ask(ctx, at, q.sql)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.sql, err)
		}
		left := alive[:0:0]
		for _, m := range alive {
			got, err := e.ask(ctx, at, m.sql)
			if fault := (*queryError)(nil); errors.As(err, &fault) {
				continue // no query at all
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", m.sql, err)
			}
			if differ(want, got, q.ordered) == "" {
				left = append(left, m)
			}
		}
		if n == 1 || len(left) < len(alive) {
			list = append(list, n)
		}
		alive = left
	}
	if slices.ContainsFunc(alive, func(m mutant) bool { return m.must }) {
		return nil, nil
	}
	return list, nil
}

var (
	bound  = late.Regexp(`([\w.]+)\s*(?:>=|<=|>|<)\s*('[^']*'|[\d.]+)`)
	sortBy = late.Regexp(`ORDER BY ([\w.]+)( DESC)?,`)
)

// plants are statements that set every fourth row of a column that the query compares with
// a value to that value, and every fifth of a column by which it sorts first to the
// extreme. Which rows depends on n.
func plants(domain, query string, n int) string {
	d, err := find(domain)
	if err != nil {
		return ""
	}
	var b strings.Builder
	each := func(column string, every int, value func(table, column string) string) {
		column = column[strings.LastIndexByte(column, '.')+1:]
		for _, statement := range d.schema {
			m := created.FindStringSubmatch(statement)
			if m == nil || !strings.Contains(query, m[1]) || !plainColumn(m[2], column) {
				continue
			}
			fmt.Fprintf(&b, "UPDATE OR IGNORE %s SET %s = %s WHERE rowid %% %d = %d;\n", m[1], column, value(m[1], column), every, n%every)
		}
	}
	for _, m := range sortBy.FindAllStringSubmatch(query, -1) {
		extreme := "min"
		if m[2] != "" {
			extreme = "max"
		}
		each(m[1], 5, func(table, column string) string {
			return fmt.Sprintf("(SELECT %s(%s) FROM %s)", extreme, column, table)
		})
	}
	for _, m := range bound.FindAllStringSubmatch(query, -1) {
		each(m[1], 4, func(string, string) string { return m[2] })
	}
	return b.String()
}

// plainColumn tells whether a table has a column with nothing but its type:
// a key or a checked one cannot be set to any value.
func plainColumn(columns, name string) bool {
	return slices.ContainsFunc(strings.Split(columns, ", "), func(c string) bool {
		kind, ok := strings.CutPrefix(strings.TrimSuffix(c, " NOT NULL"), name+" ")
		return ok && (kind == "INTEGER" || kind == "REAL" || kind == "TEXT")
	})
}

// created takes the name and the columns out of a statement of a schema.
var created = late.Regexp(`^CREATE TABLE (\w+) \((.*)\);$`)

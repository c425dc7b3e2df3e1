package sql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// tolerance is how far numbers may differ, relative to the larger one; near zero, where two
// ways to a sum leave different rests, nothing is larger than small.
const (
	tolerance = 1e-6
	small     = 1e-3
)

// differ says how got differs from want; "": it does not. Names of columns do not count,
// their order does; rows are a multiset unless ordered.
func differ(want, got *table, ordered bool) string {
	switch {
	case got.more:
		return fmt.Sprintf("more than %d rows, want %d", mostRows, len(want.rows))
	case len(got.rows) != len(want.rows):
		return fmt.Sprintf("%d rows, want %d", len(got.rows), len(want.rows))
	case len(got.rows) > 0 && len(got.rows[0]) != len(want.rows[0]):
		return fmt.Sprintf("%d columns, want %d", len(got.rows[0]), len(want.rows[0]))
	}
	used := make([]bool, len(got.rows))
	for i, w := range want.rows {
		found := -1
		if ordered {
			if sameRow(w, got.rows[i]) {
				found = i
			}
		} else {
			found = take(w, got.rows, used, i)
		}
		if found < 0 {
			return fmt.Sprintf("row %d of the wanted result is not there", i+1)
		}
		used[found] = true
	}
	return ""
}

// take finds an unused row, first where it would stand in the same order.
func take(w []any, rows [][]any, used []bool, near int) int {
	if !used[near] && sameRow(w, rows[near]) {
		return near
	}
	for j, g := range rows {
		if !used[j] && sameRow(w, g) {
			return j
		}
	}
	return -1
}

func sameRow(a, b []any) bool { return slices.EqualFunc(a, b, sameValue) }

// sameValue compares as SQL's IS does, with tolerance for numbers: NULL equals NULL alone,
// and a number equals no text.
func sameValue(a, b any) bool {
	x, isX := number(a)
	y, isY := number(b)
	if isX || isY {
		return isX && isY && math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y), small)
	}
	if p, ok := a.([]byte); ok {
		q, ok := b.([]byte)
		return ok && bytes.Equal(p, q)
	}
	if _, ok := b.([]byte); ok {
		return false
	}
	return a == b
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case bool: // of an answer in JSON
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// rowsOf reads rows that a model wrote as a JSON list of lists.
func rowsOf(text string) (*table, error) {
	var t table
	if err := json.Unmarshal([]byte(text), &t.rows); err != nil {
		return nil, fmt.Errorf("want rows as a JSON list of lists: %w", err)
	}
	for i, row := range t.rows {
		if len(row) != len(t.rows[0]) {
			return nil, fmt.Errorf("row %d has %d values, the first %d", i+1, len(row), len(t.rows[0]))
		}
		for _, v := range row {
			switch v.(type) {
			case []any, map[string]any:
				return nil, fmt.Errorf("row %d holds a list or an object: want numbers, texts and null", i+1)
			}
		}
	}
	return &t, nil
}

package sql

import "testing"

func TestDiffer(t *testing.T) {
	rows := func(r ...[]any) *table { return &table{rows: r} }
	for _, tt := range []struct {
		name      string
		want, got *table
		ordered   bool
		same      bool
	}{
		{"as it is", rows([]any{int64(1), "a"}), rows([]any{int64(1), "a"}), false, true},
		{"a whole number as a float", rows([]any{int64(3)}), rows([]any{3.0}), false, true},
		{"a rounding", rows([]any{0.1 + 0.2}), rows([]any{0.3}), false, true},
		{"the rest of a sum that is zero", rows([]any{int64(0)}), rows([]any{1e-16}), false, true},
		{"a small number and zero", rows([]any{0.0}), rows([]any{1e-8}), false, false},
		{"another number", rows([]any{1.0}), rows([]any{1.00001}), false, false},
		{"large numbers that are near", rows([]any{int64(10_000_000)}), rows([]any{int64(10_000_100)}), false, false},
		{"NULL and NULL", rows([]any{nil}), rows([]any{nil}), false, true},
		{"NULL and zero", rows([]any{nil}), rows([]any{int64(0)}), false, false},
		{"NULL and empty text", rows([]any{nil}), rows([]any{""}), false, false},
		{"a number as text", rows([]any{int64(1)}), rows([]any{"1"}), false, false},
		{"another order", rows([]any{"a"}, []any{"b"}), rows([]any{"b"}, []any{"a"}), false, true},
		{"another order where one is asked for", rows([]any{"a"}, []any{"b"}), rows([]any{"b"}, []any{"a"}), true, false},
		{"a row twice", rows([]any{"a"}, []any{"a"}, []any{"b"}), rows([]any{"a"}, []any{"b"}, []any{"b"}), false, false},
		{"a row too many", rows([]any{"a"}), rows([]any{"a"}, []any{"a"}), false, false},
		{"columns the other way round", rows([]any{"a", "b"}), rows([]any{"b", "a"}), false, false},
		{"a column too many", rows([]any{"a"}), rows([]any{"a", "b"}), false, false},
		{"bytes", rows([]any{[]byte("a")}), rows([]any{"a"}), false, false},
		{"nothing", rows(), rows(), false, true},
	} {
		if why := differ(tt.want, tt.got, tt.ordered); (why == "") != tt.same {
			t.Errorf("%s: %q", tt.name, why)
		}
	}
}

func TestReadOnly(t *testing.T) {
	for text, ok := range map[string]bool{
		"select 1": true, " /* x; */ SELECT ';' -- ;\n": true, "with x as (select 1) select * from x;": true, "values (1)": true, "explain select 1": true,
		"select \"a;b\", [c;d], `e;f`, 'it''s;'": true, "select 1;;": true,
		"": false, ";": false, "-- select": false, "pragma x": false, "select 1; select 2": false, "update t set a=1": false, "begin": false, "select 'a": false, "/* select 1": false,
	} {
		if err := readOnly(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLastBlock(t *testing.T) {
	for text, want := range map[string]string{
		"select 1": "select 1", "x\n```sql\nselect 1\n```\ny": "select 1", "```sql\na\n```\n```sql\nb\n```": "b",
		"```\na\n```": "a", "```python\na\n```": "", "```sql\na\n```\n```python\nb\n```": "a", "```sql": "", "x\n```sql\nselect 1": "select 1", "```sql\na\n```\nor ```b": "a",
		"```sql\na\n```\nwhich gives\n```\nb\n```": "a", "~~~sql\na\n~~~": "a", "```sql select 1```": "select 1", "```SQL title=x\na\n```": "a", "```\na\n```\n```\nb\n```": "b",
	} {
		if got := lastBlock(text, "sql"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

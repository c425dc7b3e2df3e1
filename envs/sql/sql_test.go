package sql_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/sql"
	"hermes/rollout/play"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c sql.Config) *sql.Env {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute // no test depends on how busy the machine is
	}
	e, err := sql.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func rows(t *testing.T, e envs.Bundled, split envs.Split, n int64) []datasets.Row {
	t.Helper()
	return envtest.Rows(t, e, split, n)
}

func TestContract(t *testing.T) {
	e := open(t, sql.Config{})
	envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 48, Repeats: 1})
	envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 6, Split: envs.Eval})
	envtest.Run(t, open(t, sql.Config{Answer: "rows", Level: 3, Seed: 5}), play.Player{}, envtest.Options{Rows: 8, Repeats: 2})
}

// answered plays a row with one answer.
func answered(t *testing.T, e *sql.Env, row datasets.Row, text string) *trajectory.Record {
	t.Helper()
	rec, err := play.Player{}.Play(t.Context(), e, row, 0, []trajectory.Message{trajectory.Text(trajectory.Assistant, text)})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Score == nil {
		t.Fatalf("row %s: %s", row.ID, rec.Reason)
	}
	return rec
}

func gold(t *testing.T, e *sql.Env, row datasets.Row) string {
	t.Helper()
	task, err := e.Task(row)
	if err != nil {
		t.Fatal(err)
	}
	return e.Hidden(task)[0]
}

// TestWrittenDown writes the result on the shown database into the query: right there,
// wrong on the hidden one.
func TestWrittenDown(t *testing.T) {
	e := open(t, sql.Config{})
	for _, row := range rows(t, e, envs.Train, 48) {
		query := gold(t, e, row)
		call := trajectory.Call{Name: "sql", Arguments: tool.JSON(map[string]string{"query": query})}
		rec, err := play.Player{}.Play(t.Context(), e, row, 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Rows [][]any }
		for m := range rec.Trace.Prefix().Messages() {
			if m.Role == trajectory.Tool {
				if err := unmarshal(m.Content(), &got); err != nil {
					t.Fatalf("%s: %v: %s", query, err, m.Content())
				}
			}
		}
		if len(got.Rows) == 0 || len(got.Rows) == 50 {
			continue // cut
		}
		r := answered(t, e, row, "```sql\n"+values(got.Rows)+"\n```").Score
		if r.Reward != 0 || r.Parts["shown"] != 1 || r.Parts["hidden"] != 0 {
			t.Errorf("row %s: %+v for %s", row.ID, r, values(got.Rows))
		}
	}
}

func values(rows [][]any) string {
	var list []string
	for _, r := range rows {
		var v []string
		for _, x := range r {
			switch x := x.(type) {
			case nil:
				v = append(v, "NULL")
			case string:
				v = append(v, "'"+strings.ReplaceAll(x, "'", "''")+"'")
			default:
				v = append(v, fmt.Sprint(x))
			}
		}
		list = append(list, "("+strings.Join(v, ",")+")")
	}
	return "VALUES " + strings.Join(list, ",")
}

// TestWhatCounts changes the reference query in ways that matter, and in ways that do not.
func TestWhatCounts(t *testing.T) {
	e := open(t, sql.Config{Level: 1})
	for _, row := range rows(t, e, envs.Train, 24) {
		query := gold(t, e, row)
		ordered := strings.Contains(query, "ORDER BY")
		for wrap, want := range map[string]float64{
			"%s":                                       1,
			"%s;":                                      1,
			"-- why not; really\n%s -- the end":        1,
			"SELECT * FROM (%s) ORDER BY 1":            1,
			"WITH q AS (%s) SELECT * FROM q":           1,
			"SELECT * FROM (%s) LIMIT 0":               0,
			"SELECT *, 1 FROM (%s)":                    0,
			"SELECT * FROM (%[1]s) UNION ALL %[1]s":    0,
			"SELECT NULL FROM (%s)":                    0,
			"%s; SELECT 1":                             0,
			"SELECT count(*) FROM (%s), sqlite_schema": 0,
			"no idea":                                  0,
		} {
			if ordered && strings.Contains(wrap, "(") {
				continue
			}
			if got := answered(t, e, row, "I think so.\n```sql\n"+fmt.Sprintf(wrap, query)+"\n```\nThat is it.").Score; got.Reward != want {
				t.Errorf("row %s, %s: %+v, want %v", row.ID, wrap, got, want)
			}
		}
	}
}

// TestConfined asks for what no query may have.
func TestConfined(t *testing.T) {
	e := open(t, sql.Config{Size: 1})
	row := rows(t, e, envs.Train, 1)[0]
	dir := t.TempDir()
	const forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c"
	for query, want := range map[string]string{
		"DELETE FROM customers":                      "read-only",
		"PRAGMA query_only=OFF":                      "read-only",
		"SELECT 1; DROP TABLE customers":             "2 statements",
		"/* x */ ATTACH '" + dir + "/x.db' AS x":     "read-only",
		"VACUUM INTO '" + dir + "/x.db'":             "read-only",
		"WITH x AS (SELECT 1) DELETE FROM customers": "readonly",
		"WITH x AS (SELECT 1) INSERT INTO customers SELECT 999, 'a', 'b', 'c', 'd' FROM x": "readonly",
		"SELECT load_extension('libc.so.6')":                                               "not authorized",
		"SELECT readfile('/etc/passwd')":                                                   "no such function",
		"SELECT writefile('" + dir + "/x', 'x')":                                           "no such function",
		"SELECT length(zeroblob(100000000))":                                               "too big",
		"SELECT printf('%.*c', 100000000, 'x')":                                            "too big",
		"SELECT * FROM pragma_query_only(0)":                                               "too many arguments",
		"SELECT '" + strings.Repeat("x", 20_000) + "'":                                     "too big",
		"SELECT nobody FROM customers":                                                     "no such column",
		"SELECT 'x":                                                                        "not closed",
		"WITH RECURSIVE c(x) AS (SELECT zeroblob(9000) UNION ALL SELECT zeroblob(9000) FROM c) SELECT x FROM c ORDER BY x":    "memory",
		"WITH RECURSIVE c(x, y) AS (SELECT 1, zeroblob(9000) UNION SELECT x+1, zeroblob(9000) FROM c) SELECT count(*) FROM c": "memory",
	} {
		if got := asked(t, e, row, query); !strings.Contains(got, want) {
			t.Errorf("%.80s: %s, want %q", query, got, want)
		}
	}
	quick := open(t, sql.Config{Size: 1, Timeout: 50_000_000})
	if got := asked(t, quick, row, forever); !strings.Contains(got, "stopped after 50ms") {
		t.Errorf("an endless query: %s", got)
	}
	if got := answered(t, quick, row, "```sql\n"+forever+"\n```").Score; got.Reward != 0 || !strings.Contains(got.Detail, "stopped") {
		t.Errorf("an endless query as the answer: %+v", got)
	}
	if got := asked(t, e, row, "SELECT count(*) AS n FROM customers"); got != `{"columns":["n"],"rows":[[40]]}`+"\n" &&
		got != `{"columns":["n"],"rows":[[40]]}` {
		t.Errorf("afterwards: %s", got)
	}
	if got := asked(t, e, row, "SELECT a.id FROM customers a, customers b"); !strings.Contains(got, "the first 50 rows") {
		t.Errorf("a long result: %s", got)
	}
}

// asked is what the tool answers.
func asked(t *testing.T, e *sql.Env, row datasets.Row, query string) string {
	t.Helper()
	call := trajectory.Call{Name: "sql", Arguments: tool.JSON(map[string]string{"query": query})}
	rec, err := play.Player{}.Play(t.Context(), e, row, 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
	if err != nil {
		t.Fatal(err)
	}
	for m := range rec.Trace.Prefix().Messages() {
		if m.Role == trajectory.Tool {
			return m.Content()
		}
	}
	t.Fatalf("%s: no result: %s", query, rec.Reason)
	return ""
}

func TestBad(t *testing.T) {
	for _, c := range []sql.Config{{Size: -1}, {Level: 7}, {Level: 3, MaxLevel: 2}, {Domains: []string{"zoo"}}, {Answer: "poem"}, {Timeout: -1}} {
		if _, err := sql.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	e := open(t, sql.Config{})
	for _, row := range rows(t, e, envs.Train, 3) {
		row.Extra["level"] = []byte("9")
		if _, err := e.Task(row); err == nil {
			t.Error("level 9 is accepted")
		}
		row.Extra["level"], row.Extra["domain"] = []byte("1"), []byte(`"zoo"`)
		if _, err := e.Task(row); err == nil {
			t.Error("the domain zoo is accepted")
		}
	}
}

// TestEveryQuestion makes rows until every kind of question of every domain was asked.
func TestEveryQuestion(t *testing.T) {
	many(t)
	n := 0
	for _, name := range []string{"shop", "library", "flights", "clinic"} {
		e := open(t, sql.Config{Domains: []string{name}, Size: 72})
		seen := map[string]bool{}
		for _, row := range rows(t, e, envs.Train, 72) {
			task, err := e.Task(row)
			if err != nil {
				t.Fatal(err)
			}
			text := task.Messages[0].Content()
			_, text, _ = strings.Cut(text, "Question: ")
			seen[strings.Join(strings.Fields(text)[:3], " ")] = true
			n++
		}
		if len(seen) < 10 {
			t.Errorf("%s: only %d kinds of questions: %v", name, len(seen), seen)
		}
	}
	t.Logf("%d questions", n)
}

func unmarshal(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// TestNearMutantsFail answers with the reference query in which one thing is wrong, as a
// policy that guesses would: the boundary, a DISTINCT or a HAVING that is left out.
func TestNearMutantsFail(t *testing.T) {
	many(t)
	e := open(t, sql.Config{})
	flip := map[string]string{" > ": " >= ", " >= ": " > ", " < ": " <= ", " <= ": " < "}
	tried, passed := 0, 0
	for _, row := range rows(t, e, envs.Eval, 120) {
		query := gold(t, e, row)
		var wrong []string
		for from, to := range flip {
			for i := range len(query) {
				rest, ok := strings.CutPrefix(query[i:], from)
				literal := ok && (rest[0] == '\'' || rest[0] >= '0' && rest[0] <= '9')
				if before := query[:i]; literal && !strings.HasSuffix(before, ")") ||
					literal && !strings.Contains(before[strings.LastIndex(before[:strings.LastIndexByte(before, '(')], " "):], "avg(") {
					wrong = append(wrong, before+to+rest)
				}
			}
		}
		if s := strings.Replace(query, "DISTINCT ", "", 1); s != query {
			wrong = append(wrong, s)
		}
		if before, after, ok := strings.Cut(query, " HAVING "); ok && !strings.Contains(after, "SELECT") && !strings.Contains(after, "ORDER BY") &&
			!strings.HasSuffix(query, "))") {
			wrong = append(wrong, before)
		}
		for _, w := range wrong {
			tried++
			if r := answered(t, e, row, "```sql\n"+w+"\n```").Score; r.Reward != 0 {
				passed++
				t.Errorf("row %s: %s\n is paid like %s", row.ID, w, query)
			}
		}
	}
	t.Logf("%d of %d mutants passed", passed, tried)
	if tried < 60 {
		t.Errorf("only %d mutants", tried)
	}
}

// TestSplitsShareNoQuestion: no question of the evaluation occurs in training.
func TestSplitsShareNoQuestion(t *testing.T) {
	many(t)
	e := open(t, sql.Config{})
	seen := map[string]string{}
	for _, split := range []envs.Split{envs.Train, envs.Eval} {
		for _, row := range rows(t, e, split, 240) {
			var domain string
			if err := json.Unmarshal(row.Extra["domain"], &domain); err != nil {
				t.Fatal(err)
			}
			text := domain + " " + row.Prompt[0].Content()
			if other, ok := seen[text]; ok && other != string(split) {
				t.Errorf("%s in %s and %s", text, other, split)
			}
			seen[text] = string(split)
		}
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) {
	many(t)
	envtest.Apart(t, open(t, sql.Config{Level: 3, MaxLevel: 4}), 200)
}

// many leaves a test of many rows out of the short form, in which the race detector runs: SQLite
// is a hundred times slower under it, and rows are made by one goroutine.
func many(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many rows, made by one goroutine")
	}
}

package datasets_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"hermes/datasets"
	"hermes/datasets/hub"
)

func TestParquetKinds(t *testing.T) {
	type turn struct {
		From  string `parquet:"from"`
		Value string `parquet:"value"`
	}
	type row struct {
		Talk  []turn             `parquet:"conversations,list"`
		Note  *string            `parquet:"note,optional"`
		Grid  [][]int32          `parquet:"grid,list"`
		Env   map[string]float64 `parquet:"env"`
		Big   uint64             `parquet:"big"`
		When  time.Time          `parquet:"when,timestamp(microsecond)"`
		Bytes []byte             `parquet:"bytes"`
		Flag  bool               `parquet:"flag"`
		Cost  int64              `parquet:"cost,decimal(2:10)"`
		Bare  []string           `parquet:"bare"`
	}
	path := filepath.Join(t.TempDir(), "k.parquet")
	note := "n"
	when := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	rows := []row{
		{
			Talk:  []turn{{"human", "hi"}, {"gpt", "ho"}},
			Note:  &note,
			Grid:  [][]int32{{1, 2}, {}, {3}},
			Env:   map[string]float64{"a": 2},
			Big:   1<<64 - 1,
			When:  when,
			Bytes: []byte{0xff, 0},
			Flag:  true,
			Cost:  -5,
			Bare:  []string{"x", "y"},
		},
		{Talk: []turn{{"human", "again"}}, When: when},
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	d, err := datasets.Open(t.Context(), datasets.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, d)
	if len(got) != 2 || got[0].Prompt[0].Content() != "hi" || len(got[0].Prompt) != 1 || got[1].Prompt[0].Content() != "again" {
		t.Fatalf("rows: %+v", got)
	}
	for key, want := range map[string]string{
		"note":  `"n"`,
		"grid":  `[[1,2],[],[3]]`,
		"env":   `{"a":2.0}`,
		"big":   "18446744073709551615",
		"when":  `"2026-01-02T03:04:05.000006Z"`,
		"bytes": `"/wA="`,
		"flag":  "true",
		"cost":  "-0.05",
		"bare":  `["x","y"]`,
	} {
		if string(got[0].Extra[key]) != want {
			t.Errorf("%s is %s, want %s", key, got[0].Extra[key], want)
		}
	}
	for key, want := range map[string]string{"note": "null", "grid": "[]", "env": "{}", "bare": "[]"} {
		if string(got[1].Extra[key]) != want {
			t.Errorf("second row: %s is %s, want %s", key, got[1].Extra[key], want)
		}
	}
}

func TestParquetThereAndBack(t *testing.T) {
	lines := []string{
		`{"prompt":"a","n":1,"x":1.5,"deep":{"l":[{"k":"v","m":[1,2]},{"k":null,"m":[]}],"t":true},"mixed":1,"big":12345678901234567890123,"none":null}`,
		`{"prompt":"b","n":-9007199254740993,"x":2,"deep":{"l":[],"t":null},"mixed":{"a":[]},"big":2,"later":"x"}`,
		`{"prompt":"c","n":null,"deep":null,"mixed":"text"}`,
	}
	in, err := datasets.Inline("in", strings.Join(lines, "\n"), datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if n, _, err := in.Convert(t.Context(), path, datasets.AsIs, datasets.Fail); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	d, err := datasets.Open(t.Context(), datasets.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	rows := collect(t, d)
	for i, r := range rows {
		var want map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "prompt")
		for key, value := range want {
			var got any
			if err := json.Unmarshal(r.Extra[key], &got); err != nil || !reflect.DeepEqual(got, value) {
				t.Errorf("row %d: %s is %s, want %v", i, key, r.Extra[key], value)
			}
		}
		for key, value := range r.Extra { // null was written out for n and none: where they are left out they come back as null
			if _, ok := want[key]; !ok && (string(value) != "null" || key != "n" && key != "none") {
				t.Errorf("row %d: %s is %s, want none", i, key, value)
			}
		}
	}
	if got := string(rows[0].Extra["big"]); got != "12345678901234567890123" {
		t.Errorf("big integer: %s", got)
	}
}

// back converts lines to Parquet and back again.
func back(t *testing.T, text string) (lines string, blurred []string) {
	t.Helper()
	in, err := datasets.Inline("in", text, datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, again := filepath.Join(t.TempDir(), "x.parquet"), filepath.Join(t.TempDir(), "x.jsonl")
	_, blurred, err = in.Convert(t.Context(), table, datasets.AsIs, datasets.Fail)
	if err != nil {
		t.Fatal(err)
	}
	d, err := datasets.Open(t.Context(), datasets.Options{}, table)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Convert(t.Context(), again, datasets.AsIs, datasets.Fail); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), blurred
}

// TestTextsStayTexts: where a column holds texts and other values, texts have no quotation
// marks for any reader, and the other values come back as they were.
func TestTextsStayTexts(t *testing.T) {
	text := `{"question":"2+3?","answer":5}` + "\n" + `{"question":"Capital of France?","answer":"Paris"}` + "\n" +
		`{"question":"Which?","answer":["a",1,null],"meta":{"x":"y"}}` + "\n" + `{"question":"Quoted?","answer":"\"Paris\"","meta":{}}` + "\n" +
		`{"question":"Parts?","answer":true,"meta":{"z":null}}` + "\n"
	got, blurred := back(t, text)
	if !sameLines(t, got, text) || len(blurred) > 0 {
		t.Errorf("blurred %v\n got %s\nwant %s", blurred, got, text)
	}
	got, blurred = back(t, `{"question":"a","answer":5}`+"\n"+`{"question":"b","answer":"5"}`+"\n"+`{"question":"c","answer":"five"}`)
	want := `{"question":"a","answer":"5"}` + "\n" + `{"question":"b","answer":"5"}` + "\n" + `{"question":"c","answer":"five"}`
	if !sameLines(t, got, want) || !reflect.DeepEqual(blurred, []string{"answer"}) {
		t.Errorf("blurred %v, got %s", blurred, got)
	}
}

func sameLines(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := strings.Split(strings.TrimSpace(a), "\n"), strings.Split(strings.TrimSpace(b), "\n")
	for i := range x {
		var u, v any
		if len(x) != len(y) || json.Unmarshal([]byte(x[i]), &u) != nil || json.Unmarshal([]byte(y[i]), &v) != nil || !reflect.DeepEqual(u, v) {
			return false
		}
	}
	return true
}

// TestAnyRowsComeBack converts random rows to Parquet and back. A key is either left out or
// null, never both: only then can one column tell them apart.
func TestAnyRowsComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(9); {
		case n < 2:
			return r.IntN(2) == 0
		case n == 2:
			return r.IntN(100)
		case n == 3:
			return float64(r.IntN(100)) / 8
		case n < 6 || depth == 0:
			return []string{"", "word", "two words", "é\n\"q\"", "-", "{not json"}[r.IntN(6)]
		case n < 8:
			list := make([]any, r.IntN(3))
			for i := range list {
				list[i] = value(depth - 1)
			}
			return list
		}
		object := map[string]any{"null": []any{nil, "x"}[r.IntN(2)]}
		for range r.IntN(4) {
			object[string(rune('a'+r.IntN(4)))] = value(depth - 1)
		}
		return object
	}
	for range 300 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			row := map[string]any{"prompt": "p"}
			for range r.IntN(4) {
				row[string(rune('k'+r.IntN(4)))] = value(3)
			}
			line, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		if got, blurred := back(t, b.String()); len(blurred) > 0 || !sameLines(t, got, b.String()) {
			t.Fatalf("blurred %v\n got %s\nwant %s", blurred, got, b.String())
		}
	}
}

func TestLayouts(t *testing.T) {
	text := `{"id":"1","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"c","reasoning_content":"r","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"x","content":"out"},{"role":"assistant","content":"done"}],"keep":[1.0]}`
	dir := t.TempDir()
	for layout, want := range map[datasets.Layout]string{
		datasets.Prompts:  `{"id": "1", "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "keep": [1.0]}`,
		datasets.ShareGPT: `{"id": "1", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "u"}, {"from": "gpt", "value": "<think>\nr\n</think>\nc\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"}, {"from": "tool", "value": "<tool_response>\n{\"tool_call_id\": \"x\", \"content\": \"out\"}\n</tool_response>"}, {"from": "gpt", "value": "done"}], "keep": [1.0]}`,
	} {
		d, err := datasets.Inline("in", text, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, string(layout)+".jsonl")
		if _, _, err := d.Convert(t.Context(), path, layout, datasets.Fail); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s:\n%s\nwant\n%s", layout, got, want)
		}
	}
}

func TestShowPrintsMappingAndRows(t *testing.T) {
	d, err := datasets.Inline("in", good+"\n"+`{"question":"q\u001b[31m","id":"x","answer":"7"}`+"\nbroken", datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := d.Show(t.Context(), &b, 3, 40); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"task     ← prompt (1 of 2 rows), question (1 of 2 rows)",
		"scoring  ← answer (1 of 2 rows)",
		"x  (in:2)",
		"user      q [31m",
		"bad row: in:3:",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestHubSliceFromTheCache(t *testing.T) {
	cache, commit := t.TempDir(), strings.Repeat("ab", 20)
	root := filepath.Join(cache, "datasets--o--n")
	for name, text := range map[string]string{
		"refs/main":                              commit,
		"snapshots/" + commit + "/train-1.jsonl": "{\"prompt\":\"0\"}\n{\"prompt\":\"1\"}\n",
		"snapshots/" + commit + "/train-2.jsonl": "{\"prompt\":\"2\"}\n{\"prompt\":\"3\"}\n",
		"snapshots/" + commit + "/test.jsonl":    "{\"prompt\":\"no\"}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := datasets.Options{Hub: hub.Options{Cache: cache, Offline: true}}
	for spec, want := range map[string]string{
		"hf:o/n":            "0123",
		"hf:o/n:train[1:3]": "12",
		"hf:o/n:train[3:]":  "3",
		"hf:o/n:train[:9]":  "0123",
		"hf:o/n:train[2:2]": "",
		"hf:o/n:test":       "no",
	} {
		d, err := datasets.Open(t.Context(), o, spec)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range collect(t, d) {
			got += r.Prompt[0].Content()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

// TestEmptyRowGroups: writers leave groups without rows, alone in a file and between others.
func TestEmptyRowGroups(t *testing.T) {
	for name, want := range map[string][]string{"empty": nil, "empty-between": {"a", "b"}} {
		d, err := datasets.Open(t.Context(), datasets.Options{}, filepath.Join("testdata", name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range collect(t, d) {
			got = append(got, r.Prompt[0].Content())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

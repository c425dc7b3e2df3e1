package datasets_test

import (
	"encoding/json"
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
		{Talk: []turn{{"human", "hi"}, {"gpt", "ho"}}, Note: &note, Grid: [][]int32{{1, 2}, {}, {3}}, Env: map[string]float64{"a": 2}, Big: 1<<64 - 1, When: when, Bytes: []byte{0xff, 0}, Flag: true, Cost: -5, Bare: []string{"x", "y"}},
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
	for key, want := range map[string]string{"note": `"n"`, "grid": `[[1,2],[],[3]]`, "env": `{"a":2.0}`, "big": "18446744073709551615", "when": `"2026-01-02T03:04:05.000006Z"`, "bytes": `"/wA="`, "flag": "true", "cost": "-0.05", "bare": `["x","y"]`} {
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
	if n, err := in.Convert(t.Context(), path, datasets.AsIs, datasets.Fail); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	d, err := datasets.Open(t.Context(), datasets.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range collect(t, d) {
		var want map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"n", "x", "deep"} {
			var got any
			if err := json.Unmarshal(r.Extra[key], &got); err != nil || !reflect.DeepEqual(got, want[key]) {
				t.Errorf("row %d: %s is %s, want %v", i, key, r.Extra[key], want[key])
			}
		}
	}
	if got := string(collect(t, d)[0].Extra["big"]); got != `"12345678901234567890123"` {
		t.Errorf("big integer: %s", got)
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
		if _, err := d.Convert(t.Context(), path, layout, datasets.Fail); err != nil {
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
	for _, want := range []string{"task     ← prompt (1 of 2 rows), question (1 of 2 rows)", "scoring  ← answer (1 of 2 rows)", "x  (in:2)", "user      q [31m", "bad row: in:3:"} {
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
	for spec, want := range map[string]string{"hf:o/n": "0123", "hf:o/n:train[1:3]": "12", "hf:o/n:train[3:]": "3", "hf:o/n:train[:9]": "0123", "hf:o/n:train[2:2]": "", "hf:o/n:test": "no"} {
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

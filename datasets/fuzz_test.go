package datasets_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/datasets/scan"
)

// checkRow is what every row that was read must keep to.
func checkRow(t *testing.T, row datasets.Row) {
	t.Helper()
	if row.ID == "" || len(row.Prompt) == 0 {
		t.Fatalf("row without id or prompt: %+v", row)
	}
	for key, v := range row.Extra {
		if !json.Valid(v) {
			t.Fatalf("metadata %q is not JSON: %q", key, v)
		}
	}
}

func checkAll(t *testing.T, d *datasets.Dataset) (rows int) {
	for row, err := range d.Rows(t.Context()) {
		var bad *datasets.RowError
		if err != nil && !errors.As(err, &bad) {
			return rows
		}
		if err == nil {
			checkRow(t, row)
			rows++
		}
	}
	return rows
}

func FuzzRow(f *testing.F) {
	for _, s := range []string{
		good, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"big":1e400}`, `{"conversations":[{"from":"human","value":"a"}]}`,
		`{"prompt":"a","hermes":{"files":{"a":"b"},"prefill":[]},"image":"a:b","reward_model":{"ground_truth":1}}`, `[{"prompt":"a"},{"prompt":"b"}]`, "{\"prompt\":\"\\ud83d\\ude00\"}\r\n\n{}",
	} {
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		for _, format := range []datasets.Format{datasets.JSONL, datasets.JSON} {
			d, err := datasets.Inline("fuzz", text, datasets.Options{Format: format, PromptKey: key, MaxLine: 1 << 16})
			if err != nil {
				t.Fatal(err)
			}
			n := checkAll(t, d)
			rep, err := d.Validate(t.Context())
			if err == nil && rep.Rows != int64(n) {
				t.Fatalf("%q: %d rows read, %d validated", text, n, rep.Rows)
			}
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add("prompt,id\na,1\n\"b\nc\",2\n")
	f.Add("\ufeffprompt\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := datasets.Inline("fuzz", text, datasets.Options{Format: datasets.CSV, MaxLine: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		checkAll(t, d)
	})
}

func FuzzMapping(f *testing.F) {
	f.Add("a=prompt,b.c=answer", `{"a":"x","b":{"c":1}}`)
	f.Fuzz(func(t *testing.T, spec, row string) {
		m, err := datasets.ParseMap(spec)
		if err != nil {
			return
		}
		d, err := datasets.Inline("fuzz", row, datasets.Options{Map: m})
		if err != nil {
			t.Fatalf("a map that was read is refused: %v", err)
		}
		checkAll(t, d)
		if m, err := d.Mapping(t.Context(), 10); err == nil && !strings.Contains(m.String(), "task") {
			t.Fatalf("mapping without task: %q", m)
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"a":[1,-0.5e3,true,null,"\u00e9"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := scan.Value(b, 0)
		whole := err == nil && scan.Space(b, end) == len(b)
		if whole != json.Valid(b) && len(b) < 500 { // deeper than 512 we refuse and the library does not
			t.Fatalf("%q: ours %v, the library's %v", b, whole, json.Valid(b))
		}
		if again, err := scan.Unquote(scan.Quote(nil, string(b))); err != nil || again != string([]rune(string(b))) {
			t.Fatalf("%q became %q, %v", b, again, err)
		}
	})
}

package datasets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"hermes/datasets"
)

// realData finds ../shared/data beside the repository.
func realData(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		data := filepath.Join(dir, "..", "shared", "data")
		if _, err := os.Stat(data); err != nil {
			t.Skipf("no real rows here: %v", err)
		}
		return data
	}
	t.Skip("no go.mod above the test")
	return ""
}

func TestEveryRealRowIsReadable(t *testing.T) {
	data := realData(t)
	for _, dir := range []string{"shell-tasks", "gsm8k", "conversations", "swe-rows"} {
		paths, err := filepath.Glob(filepath.Join(data, dir, "*.jsonl"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(paths))
		}
		for _, path := range paths {
			t.Run(dir+"/"+filepath.Base(path), func(t *testing.T) {
				o := datasets.Options{}
				if filepath.Base(path) == "transcripts.jsonl" {
					o.PromptKey = "messages_display"
				}
				d, err := datasets.Open(context.Background(), o, path)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				want, got := bytes.Count(text, []byte("\n")), 0
				for row, err := range d.Rows(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					got++
					if len(row.Prompt) == 0 || row.Prompt[len(row.Prompt)-1].Content() == "" {
						t.Errorf("row %s: no prompt", row.ID)
					}
					for key, v := range row.Extra {
						if !json.Valid(v) {
							t.Errorf("row %s: %s is not JSON", row.ID, key)
						}
					}
				}
				if got != want {
					t.Errorf("%d rows, the file has %d lines", got, want)
				}
			})
		}
	}
}

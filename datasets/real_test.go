package datasets_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"hermes/datasets"
	"hermes/internal/realdata"
)

func TestEveryRealRowIsReadable(t *testing.T) {
	data := realdata.Path(t)
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

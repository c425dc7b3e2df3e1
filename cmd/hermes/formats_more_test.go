package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestFormatsOfOtherFiles holds docs/formats.md to what evaluations and environments leave: each
// key is in its section, those of nested objects too.
func TestFormatsOfOtherFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rows := `{"id":"a","prompt":"Write x.","checker":"test -e x","hermes":{"script":[{"content":"no"}]}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"eval run rows.jsonl --grader row --model scripted --run judged", "eval score judged", "env process terminal_test --groups 1 --model oracle --run grouped",
	} {
		c := hermes(t, dir, append(strings.Fields(args), "--backend", "local")...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	free := map[string]bool{"metrics": true, "tools": true, "causes": true, "failed": true, "messages": true, "config": true, "identity": true, "extent": true, "books": true, // named by the run
		"overrides": true, "group_overrides": true, "generation_params": true, "tokens": true, "rewards": true, "stop": true, "score": true}
	for _, f := range []struct{ section, file string }{
		{"report.json", "runs/judged/report.json"},
		{"scores/NAME.jsonl", "runs/judged/scores/again.jsonl"},
		{"artifacts/ROW/SAMPLE/score.json", "runs/judged/artifacts/a/0/score.json"},
		{"groups.jsonl", "runs/grouped/groups.jsonl"}, {"run.yaml", "runs/grouped/run.yaml"},
	} {
		_, text, found := strings.Cut(string(page), "\n## "+f.section+"\n")
		if !found {
			t.Errorf("docs/formats.md has no section %s", f.section)
			continue
		}
		text, _, _ = strings.Cut(text, "\n## ")
		raw, err := os.ReadFile(filepath.Join(dir, f.file))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if strings.HasSuffix(f.file, ".yaml") {
			err = yaml.Unmarshal(raw, &v)
		} else {
			err = json.NewDecoder(bytes.NewReader(raw)).Decode(&v) // of lines the first
		}
		if err != nil || len(v) == 0 {
			t.Fatalf("%s: %v", f.file, err)
		}
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, inner := range v {
					if !strings.Contains(text, "`"+k+"`") && !strings.Contains(text, `"`+k+`"`) {
						t.Errorf("docs/formats.md, %s: nothing about %s", f.section, k)
					}
					if !free[k] {
						walk(inner)
					}
				}
			case []any:
				for _, inner := range v {
					walk(inner)
				}
			}
		}
		walk(v)
	}
}

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"hermes/internal/fakellm"
	"hermes/internal/realdata"
)

// TestRealRows rolls out rows of real datasets with a model that asks for real tool calls:
// each row is in the books, and none fails by our fault. HERMES_TEST_ROWS is how many of
// each file: the first 20, all in .ci/run.
func TestRealRows(t *testing.T) {
	t.Parallel()
	most, err := strconv.Atoi(cmp.Or(os.Getenv("HERMES_TEST_ROWS"), "20"))
	if err != nil || most < 1 {
		t.Fatalf("HERMES_TEST_ROWS: not a number of rows: %q", os.Getenv("HERMES_TEST_ROWS"))
	}
	data := realdata.Path(t)
	_, url := server(t, fakellm.Options{})
	planned := 0
	for _, set := range []string{"shell-tasks", "gsm8k", "conversations", "swe-rows"} {
		files, err := filepath.Glob(filepath.Join(data, set, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no rows (%v)", set, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(append(bytes.TrimSpace(raw), '\n'), []byte("\n"))
			rows := min(len(lines)-1, most) // behind the last end of a line there is none
			if rows < len(lines)-1 {
				file = filepath.Join(t.TempDir(), filepath.Base(file))
				if err := os.WriteFile(file, bytes.Join(lines[:rows], nil), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Run(set+"/"+filepath.Base(file), func(t *testing.T) { realRows(t, file, url, rows) })
			planned += rows
		}
	}
	t.Logf("%d rows", planned)
}

func realRows(t *testing.T, file, url string, rows int) {
	var more []string
	if filepath.Base(file) == "transcripts.jsonl" {
		more = []string{"--prompt-key", "messages_display"}
	}
	dir := t.TempDir()
	if out, err := hermes(t, dir, append([]string{"data", "validate", file}, more...)...).CombinedOutput(); err != nil {
		t.Fatalf("data validate: %v\n%s", err, out)
	}
	args := append([]string{"batch", file, "--run", "real", "--model", "fake", "--base-url", url, "--send-scripts", "--progress", "none",
		"--backend", boxesHere(), "--concurrency", "16", "--max-turns", "20", "--grader", "none", "--json"}, more...)
	c := hermes(t, dir, args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("batch: %v\n%s%s", err, said.Bytes(), out)
	}
	var books struct{ Planned, Accepted int }
	if err := json.Unmarshal(out, &books); err != nil || books.Planned != rows || books.Accepted != rows {
		t.Errorf("%d rows, but the books say (%v): %s", rows, err, out)
	}
}

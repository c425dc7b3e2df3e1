//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// steering is the first character of text that a terminal obeys.
func steering(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && r != '\t' && r != '\r' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r)) {
			return r, true
		}
	}
	return 0, false
}

// TestControlCharacters: what models, tools, rows, checkers, file names and servers wrote never
// steers the terminal of whoever reads it, and no report that is read there later. The records
// keep it as it came.
func TestControlCharacters(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;pwn\x07\u009b1m\u202e\x7f"
	dir := t.TempDir()
	quoted := func(s string) string { return fmt.Sprintf("%q", s) }
	escaped := strings.NewReplacer(`\x1b`, `\u001b`, `\a`, `\u0007`, `\x7f`, `\u007f`).Replace(strings.Trim(quoted(evil), `"`))
	row := strings.ReplaceAll(`{"id":"e1","prompt":"p EVIL","checker":"printf '\\033[31mno EVIL\\n'; exit 1","note":"EVIL","hermes":{"files":{"aEVIL.txt":"x"},"script":[`+
		`{"calls":[{"name":"terminal","arguments":{"command":"printf '\\033]0;t\\007x'; ls; echo EVIL >&2"}}]},{"calls":[{"name":"no_suchEVIL","arguments":"{}"}]},`+
		`{"content":"answer EVIL","reasoning":"think EVIL"}]}}`, "EVIL", escaped) + "\n"
	rows := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(rows, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"no `+escaped+`"}}`)
	}))
	t.Cleanup(s.Close)
	batch := []string{"batch", rows, "--model", "scripted", "--backend", "local", "--toolsets", "terminal", "--max-turns", "5"}
	refused := []string{
		"batch", rows, "--model", "m", "--base-url", s.URL + "/v1", "--backend", "local", "--toolsets", "terminal", "--retries",
		"0", "--progress", "none",
	}
	for _, args := range [][]string{
		append(batch, "--run", "r", "--progress", "bar"),
		append(batch, "--run", "faults", "--progress", "plain", "--log-level", "debug"),
		append(refused, "--run", "refused"),
		{"model", "check", "--model", "m", "--base-url", s.URL + "/v1"},
		{"chat", "-q", "hello", "--model", "m", "--base-url", s.URL + "/v1", "--backend", "local", "--toolsets", "terminal"},
		{"runs", "list"}, {"runs", "show", "r"}, {"runs", "show", "r", "e1"}, {"runs", "show", "r", "e1", "--json"}, {"runs", "tail", "r"},
		{"runs", "verify", "r"}, {"runs", "export", "r", "--format", "messages", "-o", "-"},
		{"data", "show", rows}, {"data", "validate", rows}, {"data", "stats", rows},
		{"model", "parse", "hermes", "--tools", rows},
		{"batch", "no" + evil + ".jsonl"}, {"runs", "show", "no" + evil}, {"no" + evil},
		{"tools", "run", "terminal", `{"command":"printf '\\033[2J'; echo ` + escaped + `"}`, "--backend", "local"},
		{"sandbox", "exec", "--backend", "local", "--", "printf", `\033[2J`},
	} {
		c := hermes(t, dir, args...)
		term := inTerminal(t, c)
		<-term.ended
		<-term.whole
		text := strings.ReplaceAll(term.String(), "\r\x1b[2K", "") // the progress bar's own
		if r, ok := steering(text); ok {
			t.Errorf("%q: a terminal sees %U:\n%q", args, r, text)
		}
	}
	for _, args := range [][]string{{"runs", "show", "r", "e1"}, {"runs", "show", "no" + evil}} {
		out, _ := hermes(t, dir, args...).CombinedOutput()
		if r, ok := steering(string(out)); ok {
			t.Errorf("%q: its output holds %U:\n%q", args, r, out)
		}
	}
	shown, err := hermes(t, dir, "runs", "show", "r", "e1").Output()
	if err != nil || !bytes.Contains(shown, []byte("answer ␛[2J␛]0;pwn␇<U+009B>1m<U+202E>␡")) {
		t.Errorf("the answer is not shown as it came: %v\n%s", err, shown)
	}
	reports, err := filepath.Glob(filepath.Join(dir, "runs", "*", "report.md"))
	if err != nil || len(reports) != 2 {
		t.Fatal(reports, err)
	}
	for _, name := range reports {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := steering(string(text)); ok {
			t.Errorf("%s holds %U:\n%q", name, r, text)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs", "r", "trajectories.jsonl"))
	if err != nil || !utf8.Valid(raw) || !bytes.Contains(raw, []byte(`answer \u001b[2J`)) {
		t.Errorf("the record does not hold the answer as it came: %v\n%s", err, raw)
	}
}

// TestRunIsPrivate: what models and users wrote can be read by its owner alone.
func TestRunIsPrivate(t *testing.T) {
	dir := t.TempDir()
	row := `{"id":"e1","prompt":"p","checker":"exit 0","hermes":{"artifacts":["a/b.txt"],"script":[{"calls":[{"name":"terminal","arguments":{"command":"mkdir a; echo x > a/b.txt"}}]},{"content":"done"}]}}`
	rows := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(rows, []byte(row+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := hermes(t, dir, "batch", rows, "--model", "scripted", "--backend", "local", "--toolsets",
		"terminal", "--run", "r", "--parquet", "--wandb", "offline", "--progress", "none")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := hermes(t, dir, "eval", "score", "r", "--grader", "none").CombinedOutput(); err != nil {
		t.Errorf("eval score: %v\n%s", err, out)
	}
	seen := 0
	err := filepath.WalkDir(filepath.Join(dir, "runs", "r"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 12 {
		t.Errorf("%d files, %v", seen, err)
	}
}

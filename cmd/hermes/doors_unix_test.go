//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// evil clears a screen, names a window, colours, turns the direction of writing and deletes.
const evil = "\x1b[2J\x1b]0;pwn\x07\u009b1m\u202e\x7f\b\r"

// door is one command that a terminal shows, and what is typed into it.
type door struct {
	typed string
	args  []string
}

// commands are those of the page that is made from the flags (and a test holds it to them).
func commands(t *testing.T) (paths []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	own, _, _ := strings.Cut(string(text), "\n# Flags of several commands")
	for s := bufio.NewScanner(strings.NewReader(own)); s.Scan(); {
		if path, ok := strings.CutPrefix(s.Text(), "## hermes "); ok {
			paths = append(paths, path)
		}
	}
	if len(paths) < 60 {
		t.Fatalf("%d commands: %q", len(paths), paths)
	}
	return paths
}

// TestControlDoors: every command there is shows a terminal what is hostile without obeying
// it: what it reads, where it reads anything of others, else its own arguments. A command
// that is new must be added. Afterwards no file that people read holds any of it raw.
func TestControlDoors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	escaped := strings.NewReplacer("\u009b", `\u009b`, "\u202e", `\u202e`, "\x7f", `\u007f`).Replace(strings.Trim(string(text), `"`))
	fill := func(s string) string { return strings.ReplaceAll(s, "EVIL", escaped) }
	files := map[string]string{
		"rows.jsonl": `{"id":"e1","prompt":"p EVIL","checker":"printf '\\033[31mno EVIL\\n'; exit 1","note":"EVIL","hermes":{"files":{"aEVIL.txt":"x"},"artifacts":["*"],"script":[` +
			`{"calls":[{"name":"terminal","arguments":{"command":"printf '\\033]0;t\\007x'; ls; echo EVIL >&2"}}]},{"calls":[{"name":"no_suchEVIL","arguments":"{}"}]},{"content":"answer EVIL","reasoning":"think EVIL"}]}}`,
		"sums.jsonl":  `{"id":"a\u202e","prompt":"2 EVIL","answer":"4","task":"EVIL","hermes":{"script":[{"content":"4 EVIL"}]}}`,
		"suite.yaml":  "name: mine\ndescription: \"EVIL\"\ndataset: sums.jsonl\ngrader: contains\nmatrix:\n  toolsets: [none, todo]\n",
		"own.yaml":    "own-toolsets:\n  mine: {description: \"My EVIL.\", tools: [terminal]}\ndistributions:\n  coin: {description: \"EVIL\", toolsets: {mine: 50, todo: 50}}\n",
		"wrong.yaml":  "\"modelEVIL\": \"EVIL\"\nconcurrency: \"EVIL\"\n",
		"tasks.jsonl": `{"id":"t\u202e","prompt":"Make out.txt EVIL","files":{"a EVIL":"x"},"checks":[{"kind":"contains","path":"out.txt","text":"EVIL"}],"solution":"printf '\\033[2J'; ls; echo EVIL >&2; exit 1"}`,
		"parse.jsonl": `{"id":"EVIL","family":"hermes","text":"EVIL<tool_call>\n{\"name\": \"lsEVIL\", \"arguments\": {}}\n</tool_call>"}`,
		"tmpl.jsonl":  `{"id":"EVIL","template":"EVIL {{ messages[0].content }}","messages":[{"role":"user","content":"EVIL"}]}`,
		"ids.jsonl":   `{"id":"EVIL","prompt":"x"}`,
		"broken":      `{"id":"EVIL`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill(text)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "x")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"no %s"},"detail":"%s"} %s`, escaped, escaped, evil)
	}))
	t.Cleanup(s.Close)
	failing := plainServer(t, func(w http.ResponseWriter, _ int64, tools bool) bool {
		return tools && refusal(w, http.StatusBadRequest, fill(`{"error":{"message":"no EVIL"}}`))
	})
	wire := []string{"--model", "m", "--base-url", s.URL + "/v1", "--backend", "local", "--retries", "0"}
	on := func(args ...string) door { return door{args: args} }
	quick := func(args ...string) door {
		return door{args: append(args, "--model", "scripted", "--backend", "local", "--progress", "plain", "--log-level", "debug")}
	}
	doors := []door{
		quick("batch", "rows.jsonl", "--run", "r", "--toolsets", "terminal", "--max-turns", "5"),
		{args: append([]string{"batch", "rows.jsonl", "--run", "refused", "--toolsets", "terminal"}, wire...)},
		on("batch", "rows.jsonl", "--run", "failing", "--toolsets", "terminal", "--model",
			"m", "--base-url", failing, "--backend", "local", "--retries", "0"), on("runs", "show", "failing", "e1"), on("runs", "stats", "failing"),
		on("batch", "rows.jsonl", "--run", "away", "--toolsets", "terminal", "--model", "m", "--base-url",
			failing, "--backend", "local", "--retries", "0", "--log-level", "debug", "--detach"),
		quick("eval", "run", "sums.jsonl", "--run", "sums", "--grader", "contains", "--toolsets", "none"),
		quick("eval", "run", "suite.yaml"), on("eval", "list"), on("eval", "list", "--json"),
		on("eval", "score", "sums", "--grader",
			"number", "--scores", "again"), on("eval", "report", "sums"), on("eval", "report", "sums", "--json"), on("eval", "report", "mine-matrix"),
		on("eval", "compare", "mine-none", "mine-todo"), on("eval", "compare", "sums", "no"+evil), on("eval", "run", "no"+evil, "--model", "scripted"),
		on("runs",
			"list"), on("runs", "list",
			"--json"), on("runs", "show", "r"), on("runs", "show", "r", "e1"), on("runs", "show", "r", "e1", "--json"), on("runs", "show", "sums", "a\u202e"),
		on("runs", "verify",
			"r", "sums"), on("runs", "repair", "r", "no"+evil), on("runs", "stats", "r"), on("runs", "stats", "r", "--json"), on("runs", "replay", "r"),
		on("runs", "export", "r", "--format",
			"messages", "-o", "-"), on("runs", "export", "r", "--format", "sharegpt", "-o", "out", "--json"), on("runs", "merge", "r", "sums", "-o", "merged"),
		on("runs", "push", "owner/no"+evil,
			"r"), on("runs", "tail",
			"r"), on("runs", "tail", "r", "--json"), on("runs", "ctl", "r", "cancel", evil), on("runs", "ctl", "r", evil), on("runs", "view", "no"+evil),
		on("data", "show",
			"rows.jsonl"), on("data", "show", "rows.jsonl",
			"--json"), on("data", "show",
			"broken"), on("data", "validate", "rows.jsonl",
			"broken", "ids.jsonl"), on("data", "stats", "rows.jsonl"), on("data", "stats", "rows.jsonl", "--json"),
		on("data", "convert", "sums.jsonl",
			"-o", "c"+evil+".jsonl"), on("data", "convert", "sums.jsonl",
			"-o", "c"+evil), on("data", "shard", "sums.jsonl",
			"-n", "2", "-o", "parts"+evil), on("data", "mix", "sums.jsonl=1", "rows.jsonl="+evil, "-o", "mix.jsonl"),
		on("data", "filter", "sums.jsonl", "-o",
			"f.jsonl", "--where", "task == "+evil), on("data", "filter", "sums.jsonl", "-o", "f"+evil+".jsonl",
			"--where", "len.task > 0"), on("data", "dedup", "sums.jsonl", "sums.jsonl", "-o", "d"+evil+".jsonl"),
		on("data", "split", "sums.jsonl", "--by", "task", "--parts", "a"+evil+"=0.5,b=0.5", "--json"),
		on("compress", "out/trajectories.jsonl", "-o", "small"+evil+".jsonl", "--tokenizer", "builtin:words",
			"--summary", "extractive", "--target-tokens", "50", "--summary-tokens", "20"), on("compress", "rows.jsonl", "-o", "small.jsonl", "--tokenizer",
			"builtin:words", "--summary", "extractive"),
		on("env",
			"list"), on("env", "show", "terminal_test", "--set",
			"dataset=tasks.jsonl", "--rows", "1"), on("env", "show", "terminal_test", "--set", "dataset=tasks.jsonl",
			"--rows", "1", "--json"), on("env", "show", "no"+evil),
		on("env", "check", "terminal_test", "--set", "dataset=tasks.jsonl", "--repeats", "2", "--backend", "local"),
		on("env", "process", "terminal_test", "--set", "dataset=tasks.jsonl", "--groups", "1", "--group-size",
			"2", "--run", "groups", "--model", "oracle", "--backend", "local", "--progress", "plain"),
		on("env", "evaluate", "terminal_test", "--set", "dataset=tasks.jsonl", "--set", "eval=tasks.jsonl", "--limit",
			"1", "--run", "evaluated", "--model", "oracle", "--backend", "local", "--progress", "plain"),
		{"ls; exit",
			[]string{
				"env", "debug", "terminal_test", "--set", "dataset=tasks.jsonl", "--run", "groups", "--record", "t\u202e", "--backend",
				"local",
			}}, on("env", "debug", "terminal_test", "--run", "groups", "--record", "no"+evil, "--backend", "local"),
		on("env", "serve", "terminal_test", "--set", "dataset=tasks.jsonl", "--dry-run", "--model",
			"scripted", "--exact", "--wire", "sglang", "--max-tokens", "100", "--backend", "local"), on("env", "serve", "no"+evil),
		on("env", "serve", "procedural", "--model", "scripted", "--exact", "--wire",
			"sglang", "--max-tokens", "100", "--api", s.URL, "--backend", "local"), on("env", "new", "no"+evil),
		on("run-api", evil), on("bench", evil),
		{args: append([]string{"chat", "-q", "hello " + evil, "--toolsets", "terminal"}, wire[:6]...)},
		on("tools",
			"list"), on("tools", "show",
			"no"+evil), on("tools", "run", "terminal", fill(`{"command":"printf '\\033[2J'; echo EVIL"}`),
			"--backend", "local"), on("tools", "run", "terminal", "no"+evil, "--backend", "local"),
		on("toolsets", "list",
			"-c", "own.yaml"), on("toolsets", "list", "--distributions",
			"-c", "own.yaml"), on("toolsets", "list", "--json",
			"-c", "own.yaml"), on("toolsets", "show", "mine", "-c", "own.yaml"), on("toolsets", "show", "no"+evil), on("toolsets", "sample", "no"+evil),
		on("sandbox",
			"list"), on("sandbox", "check",
			"no"+evil), on("sandbox", "exec", "--backend", "local",
			"--", "printf", `\033[2J`), on("sandbox", "exec", "--backend", "local", "--", "no"+evil), on("sandbox", "gc", evil),
		on("model", "check", "--model", "m"+evil,
			"--base-url", s.URL+"/v1"), on("model", "fake", "--script", "no"+evil), on("model", "fake", "--script", "broken", "--models", evil),
		{files["parse.jsonl"], []string{"model", "parse", "--jsonl"}},
		{files["broken"], []string{"model", "parse", "--jsonl"}},
		{files["tmpl.jsonl"], []string{"model", "render", "--jsonl"}},
		{`{"id":"EVIL","text":"EVIL"}`, []string{"model", "tokenize", "--jsonl", "--tokenizer", "builtin:words"}},
		on("config", "show",
			"-c", "wrong.yaml"), on("config", "show",
			"-c", "no"+evil), on("config", "init", evil), on("config", "check", "wrong.yaml", "no"+evil), on("config", "path", evil),
		on("doctor", evil), on("completion", "no"+evil), on("help", "no"+evil), on("help", "runs", "no"+evil), on("version", evil), on("no" + evil),
	}
	tried := map[string]int{}
	paths := commands(t)
	for _, d := range doors {
		for _, n := range []int{1, 2} {
			if path := strings.Join(d.args[:min(n, len(d.args))], " "); slices.Contains(paths, path) {
				tried[path]++
			}
		}
		term := inTerminal(t, hermes(t, dir, d.args...))
		if d.typed != "" {
			if _, err := term.master.WriteString(fill(d.typed) + "\n\x04"); err != nil {
				t.Fatal(err)
			}
		}
		c := time.AfterFunc(2*time.Minute, func() { term.master.Close() }) // hangs it up
		<-term.ended
		<-term.whole
		if !c.Stop() {
			t.Fatalf("%q: it does not end:\n%q", d.args, term)
		}
		text := strings.NewReplacer("\r\x1b[2K", "", "^D\b\b", "", "\r\n", "\n").Replace(term.String()) // the bar's own, and the terminal's echo
		if r, ok := steering(text); ok || strings.Contains(text, "\r") {
			t.Errorf("%q: a terminal sees %U:\n%q", d.args, r, text)
		}
		if testing.Verbose() {
			t.Logf("%q:\n%s", d.args, text)
		}
	}
	for _, path := range paths {
		if tried[path] == 0 {
			t.Errorf("hermes %s is new: add how it meets what is hostile", path)
		}
	}
	t.Logf("%d commands, tried %d times", len(paths), len(doors))

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for wait := time.After(2 * time.Minute); ; { // the one in the background has ended
		said, err := os.ReadFile(filepath.Join(dir, "runs", "away", "hermes.log"))
		if err == nil && bytes.Contains(said, []byte("report.md says why")) {
			t.Logf("hermes.log:\n%s", said)
			break
		}
		select {
		case <-tick.C:
		case <-wait:
			t.Fatalf("the detached run does not end: %s", said)
		}
	}

	// What people read afterwards. Logs of records, files of boxes and exports are what they were.
	read := map[string]int{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"journal", "artifacts", "blobs", "home"}, d.Name()) {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".md", ".log", ".json", ".yaml", ".csv", ".html", ".txt", ".jsonl"}, filepath.Ext(path)) || d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read[filepath.Ext(path)]++
		if filepath.Ext(path) == ".jsonl" { // records, for programs: JSON escapes what steers a terminal of old
			text = bytes.Map(func(r rune) rune { // and keeps the rest to the byte
				if r > 0x7e {
					return 'x'
				}
				return r
			}, text)
		}
		if r, ok := steering(string(text)); ok || bytes.ContainsRune(text, '\r') {
			t.Errorf("%s holds %U: %.300q", path, r, text)
		}
		return nil
	})
	if err != nil || read[".md"] < 3 || read[".json"] < 5 || read[".html"] < 3 || read[".log"] < 1 {
		t.Error(read, err)
	}
	t.Log("files looked at: ", read)
}

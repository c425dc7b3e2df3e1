package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// said is what a command wrote on stderr, and its exit code.
func said(t *testing.T, c *exec.Cmd) (string, int) {
	t.Helper()
	var text bytes.Buffer
	c.Stderr = &text
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return text.String(), c.ProcessState.ExitCode()
}

// wants compares how a command ended; its last line is the sentence for people.
func wants(t *testing.T, c *exec.Cmd, code int, sentence ...string) {
	t.Helper()
	text, got := said(t, c)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, text)
	}
	for _, s := range sentence {
		if !strings.Contains(last, s) {
			t.Errorf("the last line does not say %q:\n%s", s, text)
		}
	}
	if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		t.Errorf("a trace is no sentence:\n%s", text)
	}
}

// plainServer is a model server that answers every request with "done", unless refuse
// writes another answer first.
func plainServer(t *testing.T, refuse func(w http.ResponseWriter, request int64, tools bool) bool) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			io.WriteString(w, `{"object":"list","data":[{"id":"m"}]}`)
			return
		}
		var q struct{ Tools []any }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
		if refuse != nil && refuse(w, n.Add(1), len(q.Tools) > 0) {
			return
		}
		io.WriteString(w,
			`{"id":"x","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func refusal(w http.ResponseWriter, status int, body string) bool {
	w.WriteHeader(status)
	io.WriteString(w, body)
	return true
}

func TestKeyIsRefusedLater(t *testing.T) {
	dir := t.TempDir()
	var revoked atomic.Bool
	var requests atomic.Int64
	revoked.Store(true)
	url := plainServer(t, func(w http.ResponseWriter, _ int64, _ bool) bool {
		return revoked.Load() && requests.Add(1) > 5 && refusal(w, http.StatusUnauthorized,
			`{"error":{"message":"Incorrect API key provided: sk-secretsecret.","code":"invalid_api_key"}}`)
	})
	args := []string{
		"batch", tasks(t, dir, 40), "--run", "r", "--model", "m", "--base-url", url, "--no-stream", "--backend", "local",
		"--progress", "none", "--concurrency", "2",
	}
	batch := func(more ...string) *exec.Cmd {
		c := hermes(t, dir, append(args, more...)...)
		c.Env = append(c.Env, "OPENAI_API_KEY=sk-secretsecret")
		return c
	}
	wants(t, batch("--run", "all", "--stop-after-failures", "0"), 3, "35 of 40 samples failed without the model's fault (attempts by cause: auth 35)",
		"--retry-failed")
	wants(t, batch(), 2, "the model server refuses us") // nothing succeeded since it began
	requests.Store(0)
	c := batch("--stop-after-failures", "10")
	wants(t, c, 4, "too many failures in a row: 10 of cause provider/auth, which are pending again", "Incorrect API key", "the same command resumes")
	wants(t, hermes(t, dir, "runs", "verify", "r"), 0)
	if raw, err := os.ReadFile(filepath.Join(dir, "runs", "r", "statistics.json")); err != nil || !bytes.Contains(raw, []byte(`"pending": 35`)) ||
		!bytes.Contains(raw, []byte(`"provider": 0`)) {
		t.Errorf("%v: the books of a run whose provider was down:\n%s", err, raw)
	}
	if text := c.Stderr.(*bytes.Buffer).String(); strings.Contains(text, "secretsecret") {
		t.Errorf("the key is shown:\n%s", text)
	}
	revoked.Store(false)
	wants(t, batch(), 0)
	eachOnce(t, filepath.Join(dir, "runs", "r", "trajectories.jsonl"), 40)
}

func TestModelWithoutTools(t *testing.T) {
	for server, body := range map[string]string{
		"ollama": `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}`,
		"vllm":   `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}`,
	} {
		t.Run(server, func(t *testing.T) {
			dir := t.TempDir()
			url := plainServer(t, func(w http.ResponseWriter, _ int64, tools bool) bool {
				return tools && refusal(w, http.StatusBadRequest, body)
			})
			args := []string{"batch", tasks(t, dir, 5), "--model", "m", "--base-url", url, "--no-stream", "--backend", "local", "--progress", "none"}
			wants(t, hermes(t, dir, append(args, "--run", "tools")...), 2, "the model server refuses us", "tool", "--toolsets none")
			wants(t, hermes(t, dir, append(args, "--run", "none", "--toolsets", "none")...), 0)
		})
	}
}

// TestContextOverflow: a conversation that outgrows the context is the model's limit, no
// failure of ours.
func TestContextOverflow(t *testing.T) {
	dir := t.TempDir()
	url := plainServer(t, func(w http.ResponseWriter, request int64, _ bool) bool {
		return request%2 == 0 && refusal(w, http.StatusBadRequest,
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","code":"context_length_exceeded"}}`)
	})
	c := hermes(t, dir, "batch", tasks(t, dir, 6), "--run", "r", "--model", "m", "--base-url", url,
		"--no-stream", "--backend", "local", "--progress", "none", "--concurrency", "1")
	text, code := said(t, c)
	if code != 0 || !strings.Contains(text, "6 planned: 3 accepted, 3 rejected.truncated") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs", "r", "failed_trajectories.jsonl"))
	if err != nil || strings.Count(string(raw), "maximum context length is 4096") != 3 {
		t.Errorf("the reason is not shown (%v): %.500s", err, raw)
	}
}

func TestImageIsMissing(t *testing.T) {
	backend := boxesHere()
	if backend == "local" {
		t.Skip("no isolated back-end here: local boxes have no images")
	}
	dir := t.TempDir()
	rows := filepath.Join(dir, "rows.jsonl")
	text := `{"id":"a","prompt":"x"}` + "\n" + `{"id":"b","prompt":"x","hermes":{"image":"no/such-image:1"}}` + "\n"
	if err := os.WriteFile(rows, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"batch", rows, "--model", "scripted", "--backend", backend, "--progress", "none", "--toolsets", "terminal"}
	wants(t, hermes(t, dir, append(args, "--run", "row")...), 3, "1 of 2 samples", "image 1", "report.md")
	report, err := os.ReadFile(filepath.Join(dir, "runs", "row", "report.md"))
	if err != nil || !strings.Contains(string(report), "no/such-image:1") {
		t.Errorf("the report does not name the image (%v):\n%s", err, report)
	}
	wants(t, hermes(t, dir, append(args, "--run", "whole", "--image", "no/such-image:1")...), 2, "no/such-image:1")
	if _, err := os.Stat(filepath.Join(dir, "runs", "whole")); err == nil {
		t.Error("a run that could not begin left a directory")
	}
}

func TestWrongKeyAndNoServer(t *testing.T) {
	dir := t.TempDir()
	name := tasks(t, dir, 3)
	url := plainServer(t, func(w http.ResponseWriter, _ int64, _ bool) bool {
		return refusal(w, http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided"}}`)
	})
	batch := func(url string) *exec.Cmd {
		return hermes(t, dir, "batch", name, "--run", "r", "--model", "m", "--base-url", url, "--no-stream",
			"--backend", "local", "--progress", "none", "--request-retries", "0")
	}
	wants(t, batch(url), 2, "the model server refuses us", "Incorrect API key")
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	wants(t, batch(dead.URL+"/v1"), 2, strings.TrimPrefix(dead.URL, "http://"), "connection refused")
}

// TestReadOnlyDirectory: nothing can be written where the run ought to lie.
func TestReadOnlyDirectory(t *testing.T) {
	disk, readOnly := smallDisk(t, 1<<20)
	dir := t.TempDir()
	name := tasks(t, dir, 3)
	args := []string{"batch", name, "--run", "r", "--out", filepath.Join(disk, "runs"), "--model", "scripted", "--backend", "local", "--progress", "none"}
	wants(t, hermes(t, dir, args...), 0)
	readOnly()
	wants(t, hermes(t, dir, args...), 2, filepath.Join(disk, "runs", "r"), "read-only file system")
	wants(t, hermes(t, dir, append(args, "--run", "another")...), 2, "another", "read-only file system")
	if out, err := hermes(t, dir, "runs", "verify", filepath.Join(disk, "runs", "r")).CombinedOutput(); err != nil {
		t.Errorf("a run that can only be read cannot be looked at: %v\n%s", err, out)
	}
}

// TestFullFromTheBeginning: a run that cannot begin says so and leaves nothing behind.
func TestFullFromTheBeginning(t *testing.T) {
	disk, _ := smallDisk(t, 1<<20)
	dir := t.TempDir()
	fill(t, filepath.Join(disk, "filler"))
	c := hermes(t, dir, "batch", tasks(t, dir, 3), "--run", "r", "--out", filepath.Join(disk, "runs"),
		"--model", "scripted", "--backend", "local", "--progress", "none", "--json")
	var out bytes.Buffer
	c.Stdout = &out
	wants(t, c, 1, "no space left on device", "make room")
	if out.Len() > 0 {
		t.Errorf("books of a run that never began: %s", out.Bytes())
	}
	if _, err := os.Stat(filepath.Join(disk, "runs", "r", "run.yaml")); err == nil {
		t.Error("half a run was left behind")
	}
}

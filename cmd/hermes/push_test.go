package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/hfhub/hubtest"
	"hermes/trajectory/columns"
)

// rolled runs two rows, whose second answer holds a key's shape, into runs/demo.
func rolled(t *testing.T) (dir, key string) {
	t.Helper()
	dir, key = t.TempDir(), "hf_"+strings.Repeat("a1B2", 8)
	rows := `{"id":"clean","prompt":"Say hello.","expected":"hello","hermes":{"script":[{"content":"hello"}]}}
{"id":"leak","prompt":"Show the key.","expected":"no","hermes":{"script":[{"content":"looking","calls":[{"name":"terminal","arguments":{"command":"echo ` + key + `"}}]},{"content":"done"}]}}
`
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	c := hermes(t, dir, "batch", "rows.jsonl", "--model", "scripted", "--toolsets", "terminal", "--backend", "local", "--run", "demo", "--progress", "none")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir, key
}

// TestPush sends a run to a hub: never a row that holds a secret.
func TestPush(t *testing.T) {
	dir, key := rolled(t)
	h := hubtest.New(t, "token-of-the-test")
	run := func(env []string, args ...string) (string, int) {
		c := hermes(t, dir, append([]string{"runs", "push", "me/rows", "demo"}, args...)...)
		c.Env = append(c.Env, append([]string{"HF_ENDPOINT=" + h.URL}, env...)...)
		out, _ := c.CombinedOutput()
		return string(out), c.ProcessState.ExitCode()
	}
	token := []string{"HF_TOKEN=token-of-the-test"}
	if out, code := run(nil); code != 2 || !strings.Contains(out, "set HF_TOKEN") {
		t.Errorf("without a token: %d, %s", code, out)
	}
	out, code := run(token)
	if code != 2 || !strings.Contains(out, "data/train-00000-of-00001.parquet, row 1 (id leak, sample 0): message 1 (assistant)") ||
		strings.Contains(out, key) {
		t.Errorf("a secret: %d, %s", code, out)
	}
	if h.Files("me/rows") != nil || h.Puts() > 0 {
		t.Error("something was sent")
	}
	if out, code := run([]string{"HF_TOKEN=wrong-token"}, "--where", "reward > 0"); code != 2 || strings.Contains(out, "wrong-token") {
		t.Errorf("a wrong token: %d, %s", code, out)
	}
	out, code = run(token, "--where", "reward > 0", "--license", "mit", "--json")
	if code != 0 {
		t.Fatalf("%d, %s", code, out)
	}
	for _, c := range h.Complaints() {
		t.Errorf("the hub complains: %s", c)
	}
	files := h.Files("me/rows")
	if _, private := h.Commits("me/rows"); !private || len(files) != 2 || !bytes.Contains(files["README.md"], []byte("license: mit")) {
		t.Errorf("private %v, %d files\n%s", private, len(files), files["README.md"])
	}
	raw := files["data/train-00000-of-00001.parquet"]
	n := 0
	rows, err := columns.Read(bytes.NewReader(raw), int64(len(raw)))
	for _, r := range rows {
		n++
		if r.ID != "clean" {
			t.Errorf("row %s was sent", r.ID)
		}
	}
	if err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "runs", ".hermes-push-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDatasetsLoads has Python's datasets load an exported folder as it is.
func TestDatasetsLoads(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has datasets")
	}
	if out, err := exec.Command(python, "-c", "import datasets").CombinedOutput(); err != nil {
		t.Skipf("%s has no datasets: %s", python, out)
	}
	dir, _ := rolled(t)
	if out, err := hermes(t, dir, "runs", "export", "demo", "--format", "hf", "-o", "folder").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(python, "-c", `
import datasets
rows = datasets.load_dataset("folder", cache_dir="cache")["train"]
assert rows["id"][:] == ["clean", "leak"], rows["id"]
assert rows[0]["messages"][-1]["content"] == "hello", rows[0]
assert [t["name"] for t in rows[1]["tool_stats"] if t["count"]] == ["terminal"], rows[1]
assert rows[0]["reward"] == 1.0 and rows[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "terminal"
`)
	c.Dir, c.Env = dir, append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+filepath.Join(dir, "hf"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

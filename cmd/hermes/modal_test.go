package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/modal/modaltest"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
	"hermes/internal/fakellm"
)

// modalSecret is looked for in all that hermes says and writes.
const modalSecret = "as-nobody-shall-see-this"

// modalHere starts a service whose sandboxes are namespaces, or skips the test where the
// kernel forbids them, and writes a run file for it.
func modalHere(t *testing.T, dir string) *modaltest.Fake {
	t.Helper()
	boxes, err := driver.Open(t.Context(), namespace.Config{Limits: namespace.Limits{Processes: 1024}})
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip("sandboxes of the fake need namespaces: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { boxes.Close(context.Background()) })
	slotd := filepath.Join(t.TempDir(), "hermes-slotd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", slotd, "hermes/cmd/slotd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build slotd: %v\n%s", err, out)
	}
	f, err := modaltest.New(modaltest.Options{Boxes: boxes, Tokens: map[string]string{"ak-1": modalSecret}, Images: []string{"python:3.11-slim"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	t.Setenv("MY_ID", "ak-1")
	t.Setenv("MY_SECRET", modalSecret)
	section := fmt.Sprintf("backends:\n  modal: {server: %q, slotd: %q, token-id-env: MY_ID, token-secret-env: MY_SECRET}\n", f.Address(), slotd)
	if err := os.WriteFile(filepath.Join(dir, "modal.yaml"), []byte(section), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestModalCommands: list, exec, check and gc as a user meets them.
func TestModalCommands(t *testing.T) {
	dir := t.TempDir()
	f := modalHere(t, dir)
	run := func(code int, args ...string) string {
		t.Helper()
		out, err := hermes(t, dir, args...).CombinedOutput()
		if exitCode(err) != code || bytes.Contains(out, []byte(modalSecret)) {
			t.Fatalf("%q: %v, want code %d\n%s", args, err, code, out)
		}
		return string(out)
	}
	if out := run(0, "sandbox", "list", "-c", "modal.yaml"); !strings.Contains(out, "sandboxes of "+f.Address()) {
		t.Errorf("list: %s", out)
	}
	if out := run(7, "sandbox", "exec", "-c", "modal.yaml", "--backend", "modal", "--", "sh", "-c", "echo hello; exit 7"); !strings.Contains(out, "hello\n") {
		t.Errorf("exec: %s", out)
	}
	if out := run(2, "sandbox", "exec", "-c", "modal.yaml", "--backend", "modal", "--image", "nothing:1", "--", "true"); !strings.Contains(out, "manifest unknown") {
		t.Errorf("an image that is not there: %s", out)
	}
	run(0, "config", "show", "-c", "modal.yaml")
	if n := f.Running(""); n != 0 {
		t.Errorf("%d sandboxes left", n)
	}
	// One that is killed leaves its sandbox; the next sweep ends it.
	killedInExec(t, dir, "modal.yaml", "modal")
	if n := f.Running(""); n != 1 {
		t.Errorf("a killed hermes left %d sandboxes", n)
	}
	if out := run(0, "sandbox", "gc", "-c", "modal.yaml"); !strings.Contains(out, "removed 1\n") || f.Running("") != 0 {
		t.Errorf("gc: %s", out)
	}
	f.Revoke("ak-1")
	if out := run(2, "sandbox", "exec", "-c", "modal.yaml", "--backend", "modal", "--", "true"); !strings.Contains(out, "look at the variables MY_ID and MY_SECRET") {
		t.Errorf("a token that is refused: %s", out)
	}
}

// TestModalDiesInMidRun: all sandboxes die while rollouts use them. Those rollouts are
// tried again, none is scored for it, the books balance, and no file has the secret.
func TestModalDiesInMidRun(t *testing.T) {
	dir := t.TempDir()
	f := modalHere(t, dir)
	s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Fixed: 5 * time.Millisecond}})
	const n = 16
	c := hermes(t, dir, "batch", chaosTasks(t, dir,
		n), "-c", "modal.yaml", "--run", "modal", "--out", filepath.Join(dir, "runs"), "--model", "fake", "--base-url", url, "--send-scripts",
		"--concurrency", "4", "--backend", "modal", "--progress", "none", "--retries", "5", "--stop-after-failures", "0", "--fail-on-error", "1.0", "--json", "--keep", "all")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(s, 6, ended) {
		t.Fatalf("it ended at once:\n%s", said.Bytes())
	}
	f.KillAll()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v\n%s", err, said.Bytes())
		}
	case <-time.After(3 * time.Minute):
		c.Process.Kill()
		t.Fatal("the run did not end")
	}
	b := balanced(t, out.Bytes(), n)
	if b.Accepted != n || b.Scored != n || b.Causes["box_lost"] == 0 {
		t.Errorf("books: %s\n%s", out.Bytes(), said.Bytes())
	}
	judge(t, filepath.Join(dir, "runs", "modal"), n)
	if left := f.Running(""); left > 0 {
		t.Errorf("%d sandboxes left", left)
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(modalSecret)) {
			t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if bytes.Contains(said.Bytes(), []byte(modalSecret)) || bytes.Contains(out.Bytes(), []byte(modalSecret)) {
		t.Error("the secret was said")
	}
}

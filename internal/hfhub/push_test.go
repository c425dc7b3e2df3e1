package hfhub_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/hfhub"
	"hermes/internal/hfhub/hubtest"
)

// folder writes a card and two large files and returns their uploads.
func folder(t *testing.T) (dir string, list []hfhub.Upload, want map[string][]byte) {
	t.Helper()
	dir, want = t.TempDir(), map[string][]byte{
		"README.md":      []byte("# é\n"),
		"data/a.parquet": bytes.Repeat([]byte("row "), 700),
		"data/b.parquet": []byte("PAR1"),
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, raw := range want {
		if err := os.WriteFile(filepath.Join(dir, path), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		list = append(list, hfhub.Upload{Path: path, File: filepath.Join(dir, path)})
	}
	return dir, list, want
}

func holds(t *testing.T, h *hubtest.Hub, name string, want map[string][]byte) {
	t.Helper()
	for _, c := range h.Complaints() {
		t.Errorf("the hub complains: %s", c)
	}
	got := h.Files(name)
	for path, raw := range want {
		if !bytes.Equal(got[path], raw) {
			t.Errorf("%s: the hub has %d bytes, want %d", path, len(got[path]), len(raw))
		}
	}
}

func TestPush(t *testing.T) {
	for name, tune := range map[string]func(*hubtest.Hub){
		"one piece": func(*hubtest.Hub) {}, "pieces": func(h *hubtest.Hub) { h.Chunk = 1000 }, "a store that fails": func(h *hubtest.Hub) { h.FailPut = 2 }} {
		t.Run(name, func(t *testing.T) {
			_, list, want := folder(t)
			h := hubtest.New(t, "secret-token")
			tune(h)
			o := hfhub.Options{Endpoint: h.URL, Token: "secret-token"}
			p := hfhub.PushOptions{Private: true, Message: "Add rollouts"}
			done, err := hfhub.Push(t.Context(), hfhub.Datasets, "me/rows", list, o, p)
			if err != nil || !done.Created || done.Files != 3 || done.Commit == "" || done.Bytes != 2800+5+4 {
				t.Fatalf("%+v, %v", done, err)
			}
			holds(t, h, "me/rows", want)
			if commits, private := h.Commits("me/rows"); len(commits) != 1 || commits[0] != "Add rollouts" || !private {
				t.Errorf("%v, private %v", commits, private)
			}
			sent := h.Puts()
			done, err = hfhub.Push(t.Context(), hfhub.Datasets, "me/rows", list, o, p)
			if err != nil || done.Created || h.Puts() != sent {
				t.Errorf("again: %+v, %v; %d objects sent, %d before", done, err, h.Puts(), sent)
			}
		})
	}
}

func TestPushRefused(t *testing.T) {
	_, list, _ := folder(t)
	h := hubtest.New(t, "right")
	push := func(name string, o hfhub.Options) error {
		_, err := hfhub.Push(t.Context(), hfhub.Datasets, name, list, o, hfhub.PushOptions{Message: "m"})
		return err
	}
	if err := push("me/rows", hfhub.Options{Endpoint: h.URL}); !errors.Is(err, hfhub.ErrNoToken) {
		t.Errorf("without a token: %v", err)
	}
	if err := push("me/rows", hfhub.Options{Endpoint: h.URL, Token: "wrong"}); err == nil || !strings.Contains(err.Error(), "HF_TOKEN") {
		t.Errorf("with a wrong one: %v", err)
	}
	if err := push("rows", hfhub.Options{Endpoint: h.URL, Token: "right"}); err == nil {
		t.Error("a name without an owner")
	}
	if err := push("me/rows", hfhub.Options{Endpoint: "http://hub.example", Token: "right"}); err == nil || !strings.Contains(err.Error(), "https only") {
		t.Errorf("a token in the clear: %v", err)
	}
	if len(h.Complaints()) > 0 || h.Puts() > 0 {
		t.Errorf("%v", h.Complaints())
	}
}

// TestPythonPushes proves the hub of the tests: Python's own client pushes to it.
func TestPythonPushes(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has huggingface_hub")
	}
	if out, err := exec.Command(python, "-c", "import huggingface_hub").CombinedOutput(); err != nil {
		t.Skipf("%s has no huggingface_hub: %s", python, out)
	}
	for _, chunk := range []int64{0, 1000} {
		dir, _, want := folder(t)
		h := hubtest.New(t, "secret-token")
		h.Chunk = chunk
		c := exec.Command(python, "-c", `
import sys, huggingface_hub
api = huggingface_hub.HfApi(endpoint=sys.argv[1], token="secret-token")
api.create_repo("me/rows", repo_type="dataset", private=True, exist_ok=True)
api.upload_folder(repo_id="me/rows", repo_type="dataset", folder_path=sys.argv[2], commit_message="Add rollouts")
`, h.URL, dir)
		c.Env = append(os.Environ(), "HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1",
			"HF_HOME="+t.TempDir(), "HF_ENDPOINT="+h.URL)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%v", err, out, h.Complaints())
		}
		holds(t, h, "me/rows", want)
	}
}

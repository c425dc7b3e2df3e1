package audited_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"custom/audited"
	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/local"
)

func open(t *testing.T) (*audited.Backend, string) {
	file := filepath.Join(t.TempDir(), "commands.jsonl")
	b, err := audited.New(audited.Config{File: file, Box: local.Config{Dir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, file
}

// TestContract runs the suite of all back-ends, about a minute; with -short its first rows.
func TestContract(t *testing.T) {
	b, _ := open(t)
	for _, r := range backendtest.Rows() {
		if testing.Short() && r.Number > 12 {
			break
		}
		t.Run(r.Title(), func(t *testing.T) { r.Run(t.Context(), t, b, backendtest.Options{}) })
	}
}

func TestCommandsAreWrittenDown(t *testing.T) {
	b, file := open(t)
	box, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Exec(t.Context(), backends.Cmd{Shell: "echo seen"}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(raw), `"shell":"echo seen"`) {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}

package examples_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/envs/skeleton"
)

var update = flag.Bool("update", false, "write go.mod and go.sum of the examples again")

// modules are the examples that are separate Go modules: the name of the module by its folder.
func modules() map[string]string {
	return map[string]string{"custom": "custom", "environment": "ledger"}
}

// TestRequirements: the examples require what hermes requires. After a change of go.mod:
// go test ./examples -run Requirements -update.
func TestRequirements(t *testing.T) {
	for dir, name := range modules() {
		mod, sum, err := skeleton.Requirements(name, "..", "../..")
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{"go.mod": mod, "go.sum": sum} {
			path := filepath.Join(dir, file)
			if *update {
				if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s is not what hermes requires (%v): go test ./examples -run Requirements -update", path, err)
			}
		}
	}
}

// TestModules copies the examples elsewhere, as a reader would, and has them vetted and tested
// there; their programs are run by the pages of this folder.
func TestModules(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range modules() {
		t.Run(dir, func(t *testing.T) {
			there := t.TempDir()
			if err := os.CopyFS(there, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"mod", "edit", "-replace", "hermes=" + root}, {"vet", "./..."}, {"test", "-short", "./..."}} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				c := exec.CommandContext(ctx, "go", args...)
				c.Dir = there
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, &out
				err := c.Run()
				cancel()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &out)
				}
			}
		})
	}
}

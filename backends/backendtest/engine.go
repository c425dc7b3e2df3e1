package backendtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OwnEngine is scripts/docker.sh for a Docker engine of the test's own, with its state in
// dir: the function that it returns runs one of the script's verbs (start, stop, clean) and
// returns what it printed. The test lies two folders below the checkout's top.
func OwnEngine(t *testing.T, dir string) func(verb string) string {
	t.Helper()
	script, err := filepath.Abs("../../scripts/docker.sh")
	if err != nil {
		t.Fatal(err)
	}
	return func(verb string) string {
		t.Helper()
		cmd := exec.Command(script, verb)
		cmd.Env = append(os.Environ(), "HERMES_ENGINE_DIR="+dir)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("docker.sh %s: %v\n%s", verb, err, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
}

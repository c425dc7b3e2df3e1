package remote_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/envs/remote"
)

// TestVariables starts programs and checkers while hermes has keys in its environment: they
// get what says where things are, and of the rest what is named.
func TestVariables(t *testing.T) {
	t.Setenv("OPENROUTER_API_KEY", "sk-secret")
	t.Setenv("HERMES_API_KEY", "hermes-secret")
	t.Setenv("JUDGE_KEY", "for the program")
	t.Setenv("LC_ALL", "C")
	dir := t.TempDir()
	rows := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(rows, []byte(`{"id":"1","prompt":"p"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]remote.Config{
		"program": {Command: program(t, "variables", filepath.Join(dir, "program"))},
		"checker": {Checker: []string{"sh", "-c", `cat >/dev/null; env >"$0"; echo 1`, filepath.Join(dir, "checker")}, Dataset: rows},
	} {
		t.Run(name, func(t *testing.T) {
			c.Env = map[string]string{"MODE": "test", "TZ": "UTC"}
			c.PassEnv = []string{"JUDGE_KEY"}
			c.Workers = 1
			e := open(t, c)
			if name == "checker" {
				if _, err := scoreOnce(t, e, "answer"); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			got := "\n" + string(raw) + "\n"
			for _, want := range []string{
				"\nMODE=test\n",
				"\nTZ=UTC\n",
				"\nJUDGE_KEY=for the program\n",
				"\nPATH=" + os.Getenv("PATH") + "\n",
				"\nLC_ALL=C\n",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in %s", want, got)
				}
			}
			if strings.Contains(got, "secret") || strings.Contains(got, "API_KEY") {
				t.Errorf("a key is handed on: %s", got)
			}
		})
	}
}

func TestVariablesThatAreWrong(t *testing.T) {
	for want, c := range map[string]remote.Config{
		"pass-env: the variable NO_SUCH_KEY_HERE is not set": {Command: program(t, "ok"), PassEnv: []string{"NO_SUCH_KEY_HERE"}},
		`"A=B" is no name`:                     {Command: program(t, "ok"), Env: map[string]string{"A=B": "c"}},
		"are for a program that hermes starts": {URL: "http://127.0.0.1:1", Env: map[string]string{"A": "c"}},
	} {
		if e, err := remote.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v: want %s", e, err, want)
		}
	}
}

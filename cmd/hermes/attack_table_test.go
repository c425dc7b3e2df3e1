package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAttackTable: scripts/attack.sh ends with 1 for every log that does not show that all
// attacks of its list were made and held, and says which is missing.
func TestAttackTable(t *testing.T) {
	for _, program := range []string{"bash", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("scripts/attack.sh needs it: ", err)
		}
	}
	const (
		list = "# a comment\nbox ./backends/x TestMany 2\nbox ./backends/docker TestEscapes 1 engine\nbox ./backends/docker TestReach 1 engine\nkeys ./cmd TestOne 1\nrewards ./envs/rows TestAttacks 3 games\n"
		many = "=== RUN   TestMany\n    --- PASS: TestMany/a (0.10s)\n    --- PASS: TestMany/b (0.10s)\n--- PASS: TestMany (0.20s)\nPASS\nok  \thermes/backends/x\t0.3s\n"
		rest = "--- PASS: TestOne (0.00s)\nPASS\nok  \thermes/cmd\t0.1s\n    attacks_test.go:1: 3 games: 0 void, 0 forged\n--- PASS: TestAttacks (0.00s)\nPASS\nok  \thermes/envs/rows\t(cached)\n"
		none = "--- SKIP: TestEscapes (0.00s)\n--- SKIP: TestReach (0.00s)\nPASS\nok  \thermes/backends/docker\t0.1s\n"
		held = "--- PASS: TestEscapes (0.00s)\n--- PASS: TestReach (0.00s)\nPASS\nok  \thermes/backends/docker\t0.1s\n"
		lost = "--- FAIL: TestEscapes (0.00s)\n--- PASS: TestReach (0.00s)\nFAIL\nFAIL\thermes/backends/docker\t0.1s\nFAIL\n"
	)
	for _, tt := range []struct {
		name string
		logs []string
		says string // "" where it ends with 0
		also string
	}{
		{name: "all held", logs: []string{many + rest + held}, also: "box              4        4            0        0"},
		{name: "no engine", logs: []string{many + rest + none}, also: "./backends/docker TestEscapes: no engine was there"},
		{name: "the later log counts", logs: []string{many + rest + none, held}, also: "box              4        4            0        0"},
		{
			name: "a subtest fails",
			logs: []string{strings.ReplaceAll(many, "PASS: TestMany/b", "FAIL: TestMany/b") + rest + held},
			says: "got through: ./backends/x TestMany/b",
		},
		{
			name: "what is around the subtests fails",
			logs: []string{strings.ReplaceAll(many, "PASS: TestMany (", "FAIL: TestMany (") + rest + held},
			says: "failed: ./backends/x TestMany",
		},
		{name: "with the engine it fails", logs: []string{many + rest + none, lost}, says: "got through: ./backends/docker TestEscapes"},
		{
			name: "with the engine it is skipped",
			logs: []string{many + rest + strings.ReplaceAll(held, "PASS: TestReach", "SKIP: TestReach")},
			says: "skipped, though its engine is there: ./backends/docker TestReach",
		},
		{name: "a test vanished", logs: []string{many + strings.ReplaceAll(rest, "TestOne", "TestTwo") + held}, says: "not there: ./cmd TestOne"},
		{name: "the test of the engine vanished", logs: []string{many + rest}, says: "not there: ./backends/docker TestEscapes"},
		{
			name: "the test of another package has the name",
			logs: []string{many + strings.ReplaceAll(rest, "hermes/cmd\t", "hermes/cmd/hermes\t") + held},
			says: "not there: ./cmd TestOne",
		},
		{
			name: "fewer attacks",
			logs: []string{strings.ReplaceAll(many, "    --- PASS: TestMany/b (0.10s)\n", "") + rest + held},
			says: "fewer attacks than there were: ./backends/x TestMany: 1, want 2",
		},
		{
			name: "an attack was skipped",
			logs: []string{strings.ReplaceAll(many, "PASS: TestMany/b", "SKIP: TestMany/b") + rest + held},
			says: "fewer attacks than there were: ./backends/x TestMany: 1, want 2",
		},
		{
			name: "all of a suite was skipped",
			logs: []string{many + strings.ReplaceAll(rest, "PASS: TestOne", "SKIP: TestOne") + held},
			says: "keys: no attack was made",
		},
		{
			name: "a reward was forged",
			logs: []string{many + strings.ReplaceAll(rest, "0 forged", "1 forged") + held},
			says: "rewards          3        2            1",
		},
		{
			name: "fewer games",
			logs: []string{many + strings.ReplaceAll(rest, "3 games", "2 games") + held},
			says: "fewer attacks than there were: ./envs/rows TestAttacks: 2, want 3",
		},
		{name: "cut off", logs: []string{rest + held + strings.TrimSuffix(many, "ok  \thermes/backends/x\t0.3s\n")}, says: "cut off: "},
		{
			name: "cut off, and the next is no continuation",
			logs: []string{rest + strings.TrimSuffix(many, "ok  \thermes/backends/x\t0.3s\n"), "PASS\nok  \thermes/backends/x\t0.3s\n" + held},
			says: "not there: ./backends/x TestMany",
		},
		{
			name: "a test prints what looks like the line of a package",
			logs: []string{strings.ReplaceAll(many, "--- PASS: TestMany (", "ok hermes/cmd\n--- PASS: TestMany (") + rest + held},
			also: "box              4        4            0        0",
		},
		{name: "nothing was printed", logs: []string{""}, says: "no line of a package"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				file := filepath.Join(dir, name)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
			var logs []string
			for i, text := range tt.logs {
				logs = append(logs, write("log"+string(rune('a'+i)), text))
			}
			c := exec.CommandContext(t.Context(), "bash", filepath.Join("..", "..", "scripts", "attack.sh"))
			c.Env = append(os.Environ(), "ATTACKS="+write("list", list), "LOGS="+strings.Join(logs, " "))
			out, err := c.CombinedOutput()
			exit := (*exec.ExitError)(nil)
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Fatalf("%v\n%s", err, out)
			}
			if (err != nil) != (tt.says != "") || !strings.Contains(string(out), tt.says) || !strings.Contains(string(out), tt.also) {
				t.Errorf("%v, want to read %q, %q:\n%s", err, tt.says, tt.also, out)
			}
		})
	}
}

package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/cmd"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// TestOwnTool: a program of one's own that adds a tool has its toolset too, in lists, in
// runs and for the model.
func TestOwnTool(t *testing.T) {
	parts := cmd.Builtin()
	parts.Tools = append(parts.Tools, tool.Def{Toolset: "dice", About: "Throw dice.",
		Spec: trajectory.ToolSpec{
			Name:        "throw",
			Description: "Throws a die.",
			Parameters:  json.RawMessage(`{"type":"object","properties":{"sides":{"type":"integer","minimum":2}},"required":["sides"]}`),
		},
		Open: func(*tool.Scope) (tool.Handler, error) {
			return tool.Typed(func(_ context.Context, a struct{ Sides int }) (tool.Result, error) {
				return tool.Result{Text: tool.JSON(map[string]int{"thrown": a.Sides})}, nil
			}), nil
		}})
	t.Chdir(t.TempDir())
	home := t.TempDir()
	said := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := cmd.Run(t.Context(), []string{"HERMES_HOME=" + home}, nil, parts, args...)
		if got != code {
			t.Fatalf("hermes %s: exit code %d\n%s%s", strings.Join(args, " "), got, out, errs)
		}
		return out + errs
	}
	for want, args := range map[string][]string{
		"throw         dice            ready": {"tools", "list"},
		"Throw dice.":                         {"toolsets", "list"},
		`"tools":["throw"]`:                   {"toolsets", "show", "dice", "--json"},
		`{"thrown":6}`:                        {"tools", "run", "throw", `{"sides": "6"}`},
	} {
		if got := said(0, args...); !strings.Contains(got, want) {
			t.Errorf("%v: no %q in\n%s", args, want, got)
		}
	}
	row := `{"id":"a","prompt":"Throw.","hermes":{"script":[{"calls":[{"name":"throw","arguments":{"sides":20}}]},{"content":"done"}]}}` + "\n"
	if err := os.WriteFile("rows.jsonl", []byte(row), 0o644); err != nil {
		t.Fatal(err)
	}
	said(0, "batch", "rows.jsonl", "--model", "scripted", "--toolsets", "dice", "--backend", "local", "--run", "r")
	made, err := os.ReadFile(filepath.Join("runs", "r", "trajectories.jsonl"))
	if err != nil || !bytes.Contains(made, []byte(`thrown\": 20`)) {
		t.Errorf("%v: the tool did not answer:\n%s", err, made)
	}
	if got := said(2, "batch", "rows.jsonl", "--model", "scripted", "--toolsets", "dise", "--backend", "local", "--run", "s"); !strings.Contains(got, "did you mean dice?") {
		t.Errorf("misspelled: %s", got)
	}
}

package samples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hermes/datasets/samples"
	"hermes/internal/fakellm"
)

type row struct {
	ID, Prompt, Checker, Ends string
	Hermes                    struct {
		Files  map[string]string
		Script []fakellm.Turn
	}
}

func rows(t *testing.T, raw []byte) (out []row) {
	t.Helper()
	for line := range bytes.Lines(raw) {
		var r row
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("row %d: %v", len(out)+1, err)
		}
		out = append(out, r)
	}
	return out
}

// Every row has the shape that the docs promise, and every ending occurs.
func TestShape(t *testing.T) {
	all := rows(t, samples.Tasks())
	tools := []string{"terminal", "process", "read_file", "write_file", "patch", "search_files", "todo", "execute_code"}
	seen := map[string]bool{}
	used := map[string]bool{}
	ends := map[string]int{}
	code := 0
	for _, r := range all {
		if r.ID == "" || seen[r.ID] || len(r.Prompt) < 30 || r.Checker == "" || len(r.Hermes.Script) == 0 {
			t.Errorf("row %q: id, prompt, checker or script is missing or double", r.ID)
		}
		seen[r.ID] = true
		ends[r.Ends]++
		if strings.HasPrefix(r.ID, "code-") {
			code++
		}
		if strings.HasPrefix(r.ID, "fails-") == (r.Ends == "passed") {
			t.Errorf("%s ends %q", r.ID, r.Ends)
		}
		for i, turn := range r.Hermes.Script {
			last := i == len(r.Hermes.Script)-1
			if !turn.Repeat && last == (len(turn.Calls) > 0) {
				t.Errorf("%s, turn %d: the last turn answers, the others call", r.ID, i)
			}
			for _, c := range turn.Calls {
				used[c.Name] = true
				if !slices.Contains(tools, c.Name) && r.ID != "unknown-tool-first" {
					t.Errorf("%s, turn %d: unknown tool %s", r.ID, i, c.Name)
				}
				if r.Ends != "malformed" && c.Arguments[0] != '{' {
					t.Errorf("%s, turn %d: arguments %s", r.ID, i, c.Arguments)
				}
			}
		}
		for name := range r.Hermes.Files {
			if strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
				t.Errorf("%s: file %q is not inside the box", r.ID, name)
			}
		}
	}
	for _, name := range tools {
		if !used[name] {
			t.Errorf("no task uses %s", name)
		}
	}
	if len(all) != 40 || code != 6 || ends["passed"] != 36 || len(ends) != 5 {
		t.Errorf("%d rows, %d with code, endings %v", len(all), code, ends)
	}
	if got := rows(t, samples.WithoutCode()); len(got) != 34 {
		t.Errorf("%d rows without code", len(got))
	}
}

// Every task is played against the fake server with small stand-ins for the tools; the
// checker must say what `ends` says, and must say no before anything was done.
func TestScriptsSatisfyCheckers(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash on this machine")
	}
	server, err := fakellm.New(fakellm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw := slices.Collect(bytes.Lines(samples.Tasks()))
	for i, r := range rows(t, samples.Tasks()) {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("python3"); err != nil && strings.HasPrefix(r.ID, "code-") {
				t.Skip("no python3 on this machine")
			}
			b := newBox(t, r.Hermes.Files)
			if b.check(r.Checker, "") {
				t.Error("the checker passes before anything was done")
			}
			final := play(t, server, b, raw[i], r.Prompt)
			if got := b.check(r.Checker, final); got != (r.Ends == "passed") {
				t.Errorf("checker says %v, the row ends %q; final answer %q\n%s", got, r.Ends, final, b.log.String())
			}
		})
	}
}

// play is a loop of at most 12 turns; it returns the last text.
func play(t *testing.T, server *fakellm.Server, b *box, raw []byte, prompt string) string {
	var script struct {
		Hermes struct{ Script json.RawMessage }
	}
	if err := json.Unmarshal(raw, &script); err != nil {
		t.Fatal(err)
	}
	msgs := []any{map[string]any{"role": "user", "content": prompt}}
	for range 12 {
		body, err := json.Marshal(map[string]any{"model": "m", "messages": msgs, "hermes_script": script.Hermes.Script})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(body)))
		var a struct {
			Choices []struct {
				Message struct {
					Content   string
					ToolCalls []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || len(a.Choices) == 0 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		m := a.Choices[0].Message
		if len(m.ToolCalls) == 0 {
			return m.Content
		}
		msgs = append(msgs, map[string]any{"role": "assistant", "content": m.Content})
		for _, c := range m.ToolCalls {
			result := b.call(c.Function.Name, c.Function.Arguments)
			fmt.Fprintf(&b.log, "%s %s\n  %s\n", c.Function.Name, c.Function.Arguments, result)
			msgs = append(msgs, map[string]any{"role": "tool", "content": result})
		}
	}
	return ""
}

func write(path, text string) error {
	if i := strings.LastIndex(path, "/"); i > 0 {
		if err := os.MkdirAll(path[:i], 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

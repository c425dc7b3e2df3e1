package box

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hermes/backends"
	"hermes/internal/late"
	"hermes/rollout/tool/box/edit"
	"hermes/rollout/tool/box/shell"
)

// lint is what a syntax check found after a change.
type lint struct {
	Status string `json:"status"` // ok or error
	Output string `json:"output,omitempty"`
}

// lintMost bounds the files that are checked, in bytes.
const lintMost = 1 << 20

// lint checks the syntax of the new content. Problems that the old content already had are
// not reported. nil: nothing to check with.
func (x *session) lint(ctx context.Context, b backends.Sandbox, p, before, after string) (*lint, error) {
	if len(after) > lintMost || len(before) > lintMost {
		return nil, nil
	}
	now, checked, err := checkSyntax(ctx, b, p, after)
	if err != nil || !checked {
		return nil, err
	}
	if now == "" {
		return &lint{Status: "ok"}, nil
	}
	if before != "" {
		was, _, err := checkSyntax(ctx, b, p, before)
		if err != nil {
			return nil, err
		}
		if withoutPlaces(was) == withoutPlaces(now) {
			return &lint{Status: "ok"}, nil
		}
	}
	return &lint{Status: "error", Output: edit.Clip(now, 1000)}, nil
}

var places = late.Regexp(`\d+`)

func withoutPlaces(s string) string { return places.ReplaceAllString(s, "") }

// checkSyntax returns the first problem of a text.
func checkSyntax(ctx context.Context, b backends.Sandbox, p, content string) (problem string, checked bool, err error) {
	switch strings.ToLower(path.Ext(p)) {
	case ".json":
		return jsonProblem(content), true, nil
	case ".yaml", ".yml":
		return yamlProblem(content), true, nil
	case ".go":
		if _, err := parser.ParseFile(token.NewFileSet(), path.Base(p), content, parser.SkipObjectResolution); err != nil {
			return err.Error(), true, nil
		}
		return "", true, nil
	case ".py":
		return inBox(ctx, b, content, "python3", "-c", "import ast,sys\ntry: ast.parse(sys.stdin.buffer.read())\nexcept SyntaxError as e: sys.exit('line %s: %s' % (e.lineno, e.msg))\nexcept ValueError as e: sys.exit(str(e))")
	case ".toml":
		return inBox(ctx, b, content, "python3", "-c", "import sys\ntry: import tomllib\nexcept ImportError: sys.exit(0)\ntry: tomllib.loads(sys.stdin.read())\nexcept ValueError as e: sys.exit(str(e))")
	case ".sh", ".bash":
		return inBox(ctx, b, content, "bash", "-n")
	case ".js", ".mjs", ".cjs":
		return inBox(ctx, b, content, "node", "--check", "-")
	}
	return "", false, nil
}

// inBox checks with a program of the box, if it is there.
func inBox(ctx context.Context, b backends.Sandbox, content string, argv ...string) (string, bool, error) {
	r, err := b.Exec(ctx, backends.Cmd{Dir: "/", Argv: argv, Stdin: []byte(content), Timeout: 20 * time.Second, MaxOutput: 16 << 10})
	if err != nil {
		return "", false, fmt.Errorf("check syntax with %s: %w", argv[0], err)
	}
	if r.Code == 126 || r.Code == 127 || r.TimedOut {
		return "", false, nil
	}
	if r.Code == 0 {
		return "", true, nil
	}
	return strings.TrimSpace(shell.Clean(r.Stderr)), true, nil
}

func jsonProblem(content string) string {
	d := json.NewDecoder(strings.NewReader(content))
	var v any
	err := d.Decode(&v)
	if err == nil && len(bytes.TrimSpace([]byte(content[d.InputOffset():]))) > 0 {
		err = errors.New("text after the value")
	}
	if err == nil {
		return ""
	}
	at := int(d.InputOffset())
	var se *json.SyntaxError
	if errors.As(err, &se) {
		at = int(se.Offset)
	}
	return fmt.Sprintf("line %d: %v", 1+strings.Count(content[:min(at, len(content))], "\n"), err)
}

func yamlProblem(content string) string {
	d := yaml.NewDecoder(strings.NewReader(content))
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			if err.Error() == "EOF" {
				return ""
			}
			return err.Error()
		}
	}
}

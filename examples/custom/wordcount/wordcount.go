// Package wordcount is a tool that counts the words of a file in the box.
package wordcount

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"hermes/rollout/tool"
	"hermes/trajectory"
)

//go:embed wordcount.md
var description string

const parameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "The file."}
  },
  "required": ["path"],
  "additionalProperties": false
}`

type arguments struct {
	Path string `json:"path"`
}

type result struct {
	Words int `json:"words"`
}

// Tool is the tool for Parts.Tools.
func Tool() tool.Def {
	return tool.Def{
		Spec:    trajectory.ToolSpec{Name: "word_count", Description: strings.TrimSpace(description), Parameters: json.RawMessage(parameters)},
		Toolset: "words",
		Traits:  tool.Traits{ReadOnly: true, Parallel: true, NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			return tool.Typed(func(ctx context.Context, a arguments) (tool.Result, error) { return count(ctx, s, a) }), nil
		},
	}
}

// count answers one call. A missing file is the model's mistake: a failed result. Every other
// error means that the box failed, and voids the rollout.
func count(ctx context.Context, s *tool.Scope, a arguments) (tool.Result, error) {
	box, err := s.Box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	text, err := box.ReadFile(ctx, a.Path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return tool.Errorf("no file %s", a.Path), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: tool.JSON(result{Words: len(strings.Fields(string(text)))})}, nil
}

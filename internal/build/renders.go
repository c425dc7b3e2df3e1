package build

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/parsers/chattemplate"
	"hermes/trajectory"
)

// Renderer returns what renders a conversation with a model's chat template: modelFiles is
// a folder or hf:NAME, template a file or a name among the model files', kwargs a JSON
// object of its variables. It returns the length of the text in bytes.
func Renderer(ctx context.Context, modelFiles, template, kwargs string, hub hfhub.Options) (func([]trajectory.Message, []trajectory.ToolSpec) (int, error), error) {
	files, err := modelParts(ctx, settings.ExactFlags{ModelFiles: modelFiles, Tokenizer: settings.BuiltinTokenizer}, hub)
	if err != nil {
		return nil, err
	}
	text, err := TemplateText(template, files)
	if err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	o := chattemplate.Options{Source: text, BOS: files.BOS, EOS: files.EOS, Now: time.Now()}
	if kwargs != "" {
		if err := json.Unmarshal([]byte(kwargs), &o.Variables); err != nil {
			return nil, fmt.Errorf("--template-kwargs %q: want a JSON object: %w", kwargs, err)
		}
	}
	t, err := chattemplate.New(o)
	if err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	return func(msgs []trajectory.Message, tools []trajectory.ToolSpec) (int, error) {
		pieces, err := t.Prompt(msgs, tools)
		n := 0
		for _, p := range pieces {
			n += len(p.Text)
		}
		return n, err
	}, nil
}

package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/fakellm"
	"hermes/internal/hfhub"
	"hermes/parsers/modelfiles"
	"hermes/parsers/tokenizer"
	wordtokens "hermes/parsers/tokenizer/words"
	"hermes/trajectory"
)

// The tokenizer and the template that need no file: for the scripted model, tests and
// demonstrations.
const (
	builtinTokenizer = "builtin:words" // a byte of prose is a token
	benchTokenizer   = "builtin:prose" // the same with pieces of the benchmark's text: about three bytes a token, as models have
	builtinTemplate  = "builtin:chatml"
)

//go:embed builtin/chatml.jinja
var chatML string

// maxTemplateFile bounds a template's file, in bytes.
const maxTemplateFile = 64 << 20

// LoadTokenizer reads a tokenizer file, the tokenizer of a folder, or makes one of ours.
func LoadTokenizer(spec string) (tokenizer.Tokenizer, error) {
	list := []string{"<tool_call>", "</tool_call>", "<think>", "</think>", "assistant", "user", "system", "terminal", "command"}
	switch spec {
	case builtinTokenizer:
	case benchTokenizer:
		for piece := range slices.Chunk([]byte(words), 3) {
			list = append(list, string(piece))
		}
	default:
		return tokenizer.Load(spec)
	}
	return wordtokens.New(list, []string{"<|im_start|>", "<|im_end|>"})
}

// modelParts finds the files of a model: those of --model-files, else those beside the
// tokenizer, else none.
func modelParts(ctx context.Context, f ExactFlags, hub hfhub.Options) (*modelfiles.Files, error) {
	if f.ModelFiles != "" {
		files, err := modelfiles.Open(ctx, f.ModelFiles, hub)
		if err != nil {
			return nil, fmt.Errorf("--model-files: %w", err)
		}
		return files, nil
	}
	dir := f.Tokenizer
	info, err := os.Stat(dir)
	if f.Tokenizer == builtinTokenizer || f.Tokenizer == benchTokenizer || err != nil {
		return &modelfiles.Files{}, nil // a tokenizer that is not there is told when it is loaded
	}
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	if files, err := modelfiles.Open(ctx, dir, hub); err == nil {
		return files, nil
	}
	return &modelfiles.Files{}, nil
}

// templateText is the source of the template that was asked for: a file, a name among the
// model's files, or builtin:chatml. The empty name is the model's own, for tools.
func templateText(name string, files *modelfiles.Files) (string, error) {
	if name == builtinTemplate {
		return chatML, nil
	}
	info, err := os.Stat(name)
	switch {
	case name == "" || errors.Is(err, fs.ErrNotExist) && len(files.Templates()) > 0:
		if len(files.Templates()) == 0 {
			return "", errors.New("no chat template beside the tokenizer: name one with --template or --model-files")
		}
		return files.Template(name, true)
	case err != nil:
		return "", err
	case info.Size() > maxTemplateFile || !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: not a file of at most %d bytes", name, maxTemplateFile)
	}
	raw, err := os.ReadFile(name)
	return string(raw), err
}

// FakeTokens is a tokenizer for the fake server, whose answers end with the token end.
func FakeTokens(t tokenizer.Tokenizer, end string) (fakellm.Tokenizer, error) {
	id, ok := t.ID(end)
	if !ok {
		return nil, fmt.Errorf("the tokenizer has no token %q, with which the scripted model ends its answers", end)
	}
	return fakeTokens{t, id}, nil
}

type fakeTokens struct {
	t   tokenizer.Tokenizer
	end trajectory.Token
}

// Encode returns the ids of text, special tokens among them; none where it cannot be read.
func (f fakeTokens) Encode(text string) []int32 {
	list, err := f.t.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		return nil
	}
	out := make([]int32, len(list))
	for i, id := range list {
		out[i] = int32(id)
	}
	return out
}

// Decode returns the text of ids; those outside the vocabulary are left out.
func (f fakeTokens) Decode(ids []int32) string {
	list := make([]trajectory.Token, len(ids))
	for i, id := range ids {
		list[i] = trajectory.Token(id)
	}
	if text, err := f.t.Decode(list); err == nil {
		return text
	}
	var b strings.Builder
	s := f.t.Stream(tokenizer.StreamOptions{})
	for _, id := range list {
		if text, err := s.Push(id); err == nil {
			b.WriteString(text)
		}
	}
	return b.String() + s.Finish()
}

// End is the token that ends an answer.
func (f fakeTokens) End() int32 { return int32(f.end) }

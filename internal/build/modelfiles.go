package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/fakellm"
	"hermes/internal/hfhub"
	"hermes/internal/settings"
	"hermes/parsers/modelfiles"
	"hermes/parsers/tokenizer"
	wordtokens "hermes/parsers/tokenizer/words"
	"hermes/trajectory"
)

//go:embed builtin/chatml.jinja
var chatML string

// maxTemplateFile bounds a template's file, in bytes.
const maxTemplateFile = 64 << 20

// BenchText is what everybody says in a benchmark.
const BenchText = "all work and no play makes a dull agent; "

// LoadTokenizer reads a tokenizer file, the tokenizer of a folder, or makes one of ours.
func LoadTokenizer(spec string) (tokenizer.Tokenizer, error) {
	list := []string{"<tool_call>", "</tool_call>", "<think>", "</think>", "assistant", "user", "system", "terminal", "command"}
	switch spec {
	case settings.BuiltinTokenizer:
	case settings.BenchTokenizer:
		for piece := range slices.Chunk([]byte(BenchText), 3) {
			list = append(list, string(piece))
		}
	default:
		return tokenizer.Load(spec)
	}
	return wordtokens.New(list, []string{"<|im_start|>", "<|im_end|>"})
}

// modelParts finds the files of a model: those of --model-files, else those beside the
// tokenizer, else none.
func modelParts(ctx context.Context, f settings.ExactFlags, hub hfhub.Options) (*modelfiles.Files, error) {
	if f.ModelFiles != "" {
		files, err := modelfiles.Open(ctx, f.ModelFiles, hub)
		if err != nil {
			return nil, fmt.Errorf("--model-files: %w", err)
		}
		return files, nil
	}
	dir := f.Tokenizer
	info, err := os.Stat(dir)
	if f.Tokenizer == settings.BuiltinTokenizer || f.Tokenizer == settings.BenchTokenizer || err != nil {
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

// OpenTokenizer reads the tokenizer that flags name, or that of the model's files.
func OpenTokenizer(ctx context.Context, f settings.ExactFlags, hub hfhub.Options) (tokenizer.Tokenizer, error) {
	files, err := modelParts(ctx, f, hub)
	if err != nil {
		return nil, err
	}
	return tokenizerOf(f, files)
}

func tokenizerOf(f settings.ExactFlags, files *modelfiles.Files) (tokenizer.Tokenizer, error) {
	spec := cmp.Or(f.Tokenizer, files.Tokenizer)
	switch {
	case spec == "" && f.ModelFiles != "":
		return nil, fmt.Errorf("--model-files %s: no tokenizer in it; name one with --tokenizer", f.ModelFiles)
	case spec == "":
		return nil, errors.New("--exact: name the model's tokenizer with --tokenizer or --model-files")
	}
	t, err := LoadTokenizer(spec)
	if err != nil {
		err = fmt.Errorf("--tokenizer: %w", err)
	}
	return t, err
}

// TokenizerDigest identifies a vocabulary.
func TokenizerDigest(t tokenizer.Tokenizer) string {
	h := sha256.New()
	for _, s := range t.Specials() {
		fmt.Fprintf(h, "%d %q %v\n", s.ID, s.Text, s.Special)
	}
	for id := range t.Size() {
		text, _ := t.Token(trajectory.Token(id))
		fmt.Fprintf(h, "%q\n", text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Counter counts tokens of plain text. It is safe for concurrent use.
type Counter struct{ T tokenizer.Tokenizer }

// Count returns how many tokens text has.
func (c Counter) Count(text string) (int, error) {
	ids, err := c.T.Encode(text, tokenizer.Options{})
	return len(ids), err
}

// CountTokens returns what counts tokens of plain text with a tokenizer, see
// [LoadTokenizer].
func CountTokens(spec string) (func(string) (int, error), error) {
	tok, err := LoadTokenizer(spec)
	if err != nil {
		return nil, err
	}
	return Counter{tok}.Count, nil
}

// TemplateText is the source of the template that was asked for: a file, a name among the
// model's files, or builtin:chatml. The empty name is the model's own, for tools.
func TemplateText(name string, files *modelfiles.Files) (string, error) {
	if name == settings.BuiltinTemplate {
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

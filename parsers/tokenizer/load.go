package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const maxFile = 256 << 20 // bytes of a tokenizer file

// Load reads a tokenizer file (tokenizer.json, a tiktoken rank file, a SentencePiece
// model) or the first of these in a directory. Errors name the file.
func Load(path string) (Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if !info.IsDir() {
		return loadFile(path)
	}
	names := []string{"tokenizer.json", "tokenizer.model", "tiktoken.model", "qwen.tiktoken"}
	if more, err := filepath.Glob(filepath.Join(path, "*.tiktoken")); err == nil && len(more) == 1 {
		names = append(names, filepath.Base(more[0]))
	}
	for _, n := range names {
		f := filepath.Join(path, n)
		if _, err := os.Stat(f); err == nil {
			return loadFile(f)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("load tokenizer: %w", err)
		}
	}
	return nil, fmt.Errorf("load tokenizer: %s has none of %s", path, strings.Join(names, ", "))
}

func loadFile(path string) (Tokenizer, error) {
	b, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	var t Tokenizer
	switch {
	case strings.HasPrefix(strings.TrimLeft(string(b[:min(len(b), 64)]), " \t\r\n\ufeff"), "{"):
		t, err = FromJSON(b)
	case len(b) > 0 && b[0] == 0x0A:
		t, err = FromSentencePiece(b)
	default:
		t, err = fromTiktokenFile(path, b)
	}
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", path, maxFile)
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

package tokenizer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/parsers/tokenizer"
)

// TestOracleOther compares with the sentencepiece and tiktoken packages.
func TestOracleOther(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" || exec.Command(python, "-c", "import tokenizers, sentencepiece, tiktoken").Run() != nil {
		t.Skip("ORACLE_PYTHON names no Python that has tokenizers, sentencepiece and tiktoken")
	}
	dir := t.TempDir()
	args := append([]string{filepath.Join("testdata", "oracle_other.py"), dir, "3000"}, naughty(t)...)
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Fatalf("oracle: %v\n%s", err, out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if len(files) != 5 {
		t.Fatalf("models: %v", files)
	}
	for _, f := range files {
		base := strings.TrimSuffix(f, ".jsonl")
		t.Run(filepath.Base(base), func(t *testing.T) {
			tok, err := other(base)
			if err != nil {
				t.Fatal(err)
			}
			cases, bad := 0, 0
			for c := range oracleCases(t, f) {
				cases++
				ids, err := tok.Encode(c.Text, tokenizer.Options{})
				if err != nil || !slices.Equal(ids, c.IDs) {
					bad++
					if bad < 6 {
						t.Errorf("%.300q:\n%q, %v\nwant %q", c.Text, spellings(tok, ids), err, spellings(tok, c.IDs))
					}
					continue
				}
				sameText(t, tok, c)
			}
			t.Logf("%d cases, %d differ", cases, bad)
		})
	}
}

func other(base string) (tokenizer.Tokenizer, error) {
	if b, err := os.ReadFile(base + ".tiktoken"); err == nil {
		pattern, err := os.ReadFile(base + ".pattern")
		if err != nil {
			return nil, err
		}
		return tokenizer.FromTiktoken(b, tokenizer.TiktokenOptions{Pattern: string(pattern)})
	}
	return tokenizer.Load(base + ".model")
}

package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

type oracleCase struct {
	Text    string
	Special bool
	Add     bool
	Skip    bool
	IDs     []trajectory.Token
	Decoded *string
}

// TestOracle compares with the reference library on tokenizers that it trains on the spot.
func TestOracle(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has the tokenizers package")
	}
	dir := t.TempDir()
	args := append([]string{filepath.Join("testdata", "oracle.py"), dir, "3000"}, naughty(t)...)
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Fatalf("oracle: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d tokenizers, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) { compare(t, f) })
	}
}

// naughty returns the real files of texts, if they are there.
func naughty(t *testing.T) []string {
	t.Helper()
	folder, found := realdata.Folder(t)
	if !found {
		return nil
	}
	out, err := filepath.Glob(filepath.Join(folder, "naughty-text", "*.jsonl"))
	if err != nil || len(out) == 0 {
		t.Fatalf("no texts in %s: %v", folder, err)
	}
	return out
}

func compare(t *testing.T, file string) {
	tok, err := tokenizer.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	tokens := 0
	bad := 0
	for c := range oracleCases(t, file+"l") {
		cases++
		ids, err := tok.Encode(c.Text, tokenizer.Options{Special: c.Special, Add: c.Add})
		tokens += len(ids)
		if err != nil || !slices.Equal(ids, c.IDs) {
			bad++
			if bad < 6 {
				t.Errorf("%.300q special %v add %v:\n%v, %v\nwant %v", c.Text, c.Special, c.Add, spellings(tok, ids), err, spellings(tok, c.IDs))
			}
			continue
		}
		sameText(t, tok, c)
	}
	for c := range oracleCases(t, strings.TrimSuffix(file, ".json")+".ids.jsonl") {
		cases++
		sameText(t, tok, c)
	}
	if cases < 3000 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("%d cases, %d tokens, %d differ", cases, tokens, bad)
}

func sameText(t *testing.T, tok tokenizer.Tokenizer, c oracleCase) {
	t.Helper()
	if c.Decoded == nil || t.Failed() {
		return
	}
	s, got := tok.Stream(tokenizer.StreamOptions{SkipSpecial: c.Skip}), ""
	for _, id := range c.IDs {
		part, err := s.Push(id)
		if err != nil {
			t.Fatal(err)
		}
		got += part
	}
	got += s.Finish()
	if got != *c.Decoded {
		t.Errorf("decode %v:\n%q\nwant %q", spellings(tok, c.IDs), got, *c.Decoded)
	}
}

func spellings(tok tokenizer.Tokenizer, ids []trajectory.Token) []string {
	var out []string
	for _, id := range ids[:min(len(ids), 200)] {
		s, _ := tok.Token(id)
		out = append(out, s)
	}
	return out
}

func oracleCases(t *testing.T, file string) func(func(oracleCase) bool) {
	return func(yield func(oracleCase) bool) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
			var c oracleCase
			if err := d.Decode(&c); err != nil {
				t.Fatal(err)
			}
			if !yield(c) {
				return
			}
		}
	}
}

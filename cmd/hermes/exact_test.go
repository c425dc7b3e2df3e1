package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/trajectory/columns"
)

// TestExactParquet runs the sample tasks against a server that aborts, wraps and breaks
// answers. What is in the Parquet files is, token by token, what the server was sent
// and what it returned: its own log is the judge.
func TestExactParquet(t *testing.T) {
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	s, url := server(t, fakellm.Options{Tokenizer: fake, KeepTokens: true, Seed: 5,
		Faults: map[string]float64{fakellm.FaultAbort: 0.15, fakellm.FaultWrapped: 0.3, fakellm.Fault500: 0.02}})
	s.SetVersion("41")
	dir := t.TempDir()
	c := hermes(t, dir, "batch", tasks(t, dir, 12), "--run", "exact", "--model", "fake", "--base-url", url, "--send-scripts", "--exact", "--wire", "sglang",
		"--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--parquet", "--capture", "topk=2,routed_experts",
		"--backend", "local", "--toolsets", "terminal,file", "--max-turns", "20", "--progress", "none")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type seen struct {
		tokens   []int32
		logProbs map[int]float64 // by the token's place
	}
	judge := map[string]*seen{}
	aborted := 0
	for _, e := range s.Entries() {
		if !e.Complete || len(e.Sampled) == 0 {
			continue
		}
		j := judge[e.Conversation]
		if j == nil {
			j = &seen{logProbs: map[int]float64{}}
			judge[e.Conversation] = j
		}
		j.tokens = append(slices.Clone(e.Prompt), e.Sampled...)
		for k, p := range e.LogProbs {
			j.logProbs[len(e.Prompt)+k] = p
		}
		if e.Finish == "abort" {
			aborted++
		}
	}
	rows := readParts(t, filepath.Join(dir, "runs", "exact", "parquet"))
	if len(rows) != 12 || aborted == 0 {
		t.Fatalf("%d rows, %d aborted answers", len(rows), aborted)
	}
	for _, r := range rows {
		j := judge[r.Key]
		if len(r.Sequences) != 1 || j == nil {
			t.Fatalf("%s: %d sequences", r.ID, len(r.Sequences))
		}
		q := r.Sequences[0]
		if !slices.Equal(q.Tokens, j.tokens) {
			t.Errorf("%s: %d tokens, the server saw %d", r.ID, len(q.Tokens), len(j.tokens))
			continue
		}
		for i := range q.Tokens {
			p, sampled := j.logProbs[i]
			if sampled != (q.Mask[i] == 1) || sampled != q.Sampled[i] || sampled && math.Abs(float64(q.LogProbs[i])-p) > 1e-4 {
				t.Errorf("%s, token %d: mask %d, log-prob %g; the server sampled it: %v, with %g", r.ID, i, q.Mask[i], q.LogProbs[i], sampled, p)
				break
			}
		}
		if len(q.Versions) != 1 || q.Versions[0].Version != "41" {
			t.Errorf("%s: versions %v", r.ID, q.Versions)
		}
		experts := int64(0)
		for _, x := range q.Extras {
			if x.Name == "routed_experts" {
				if x.From != experts {
					t.Errorf("%s: routed experts begin at token %d, want %d", r.ID, x.From, experts)
				}
				experts += x.Shape[0]
			} else if q.Mask[x.From] != 1 {
				t.Errorf("%s: %s begins at token %d, which was not sampled", r.ID, x.Name, x.From)
			}
			if _, err := os.Stat(filepath.Join(dir, "runs", "exact", "blobs", x.Blob[:2], x.Blob)); err != nil {
				t.Error(err)
			}
		}
		if experts != int64(len(q.Tokens)-1) {
			t.Errorf("%s: routed experts of %d tokens, want %d", r.ID, experts, len(q.Tokens)-1)
		}
	}
}

// readParts reads all rows of a folder of Parquet files.
func readParts(t *testing.T, dir string) []columns.Row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "part-*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var all []columns.Row
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := columns.Read(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
	}
	return all
}

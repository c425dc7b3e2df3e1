package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/build"
	"hermes/internal/viewer"
	"hermes/rollout/rundir"
)

// TestViewExactTokens: the page has the text of every token of a real exact run, by the
// tokenizer that its configuration leads to, and refuses one that is not the run's.
func TestViewExactTokens(t *testing.T) {
	dir := t.TempDir()
	out, err := hermes(t, dir, "batch", "samples:shell", "--model", "scripted", "--exact", "--max-turns", "12", "--limit", "1", "--run", "x",
		"--backend", boxesHere(), "--progress", "none").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v, err := viewer.Open(t.Context(), []string{filepath.Join(dir, "runs", "x")}, viewer.Options{
		Decoder: func(m rundir.Manifest) (viewer.Decoder, error) {
			m.Identity = append(rundir.Fields{{Name: "tokenizer", Value: "of another run"}}, m.Identity...)
			if _, err := build.TokenTexts(m, ""); err == nil || !strings.Contains(err.Error(), "another one") {
				t.Errorf("a tokenizer of another digest: %v", err)
			}
			m.Identity = m.Identity[1:]
			return build.TokenTexts(m, "")
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.Indexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	get := func(path string, into any) {
		t.Helper()
		w := httptest.NewRecorder()
		v.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, w.Code, err)
		}
	}
	var list struct{ Rows []struct{ Key string } }
	if get("/api/list?run=0", &list); len(list.Rows) != 1 {
		t.Fatalf("%+v", list)
	}
	var r struct {
		Decoded string
		Nodes   []struct {
			Given    int
			Tokens   []int
			Texts    []string
			LogProbs []float64
		}
	}
	get("/api/record?run=0&key="+list.Rows[0].Key, &r)
	text, sampled := "", 0
	for _, n := range r.Nodes {
		if len(n.Texts) != len(n.Tokens) || len(n.LogProbs) != len(n.Tokens)-n.Given {
			t.Errorf("%d tokens, %d texts, %d log-probs, %d given", len(n.Tokens), len(n.Texts), len(n.LogProbs), n.Given)
		}
		text += strings.Join(n.Texts, "")
		sampled += len(n.LogProbs)
	}
	if r.Decoded != "" || sampled == 0 || !strings.HasPrefix(text, "<|im_start|>") || !strings.Contains(text, "<tool_call>") {
		t.Errorf("%q; %d sampled tokens in %.300q", r.Decoded, sampled, text)
	}
}

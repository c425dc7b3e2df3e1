package maths_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"hermes/envs/grade/maths"
	"hermes/internal/realdata"
)

// TestPairs compares the published pairs of answers, each by the convention of its project.
func TestPairs(t *testing.T) {
	f, err := os.Open(realdata.Path(t, "math-pairs", "pairs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var n, right int
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			A, B, Peer string
			Equal      bool
			Options    struct {
				Targets   []string
				Precision int
				Strict    *bool
				Relations *bool `json:"allow_set_relation_comp"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		n++
		var got maths.Result
		if row.Peer == "hendrycks-math" {
			got = maths.Hendrycks(row.A, row.B)
		} else {
			o := maths.Options{
				Places:    row.Options.Precision,
				Loose:     row.Options.Strict != nil && !*row.Options.Strict,
				Relations: row.Options.Relations != nil && *row.Options.Relations,
			}
			for _, name := range row.Options.Targets {
				o.Targets |= map[string]maths.Targets{"latex": maths.Latex, "expr": maths.Expr}[name]
			}
			got = maths.Equal(row.A, row.B, o)
		}
		if got.Equal == row.Equal {
			right++
			continue
		}
		t.Logf("pair %d: equal is %v, want %v: %q read as %q, %.200q read as %q", n-1, got.Equal, row.Equal, row.A, got.Gold, row.B, got.Answer)
	}
	if n < 100 || right*100 < n*99 {
		t.Errorf("%d of %d pairs are judged as published, want 99 %%", right, n)
	}
	t.Logf("%d of %d", right, n)
}

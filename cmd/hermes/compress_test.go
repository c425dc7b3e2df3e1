package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
	"hermes/trajectory/columns"
	"hermes/trajectory/compress"
)

// trajectories writes n ShareGPT lines, a third of which is too long for 600 tokens.
func trajectories(t *testing.T, name string, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		rounds := 1
		if i%3 == 0 {
			rounds = 5 + i%7
		}
		fmt.Fprintf(&b, `{"id":"task-%d","conversations":[{"from":"system","value":"Tools."},{"from":"human","value":"Task %d."}`, i, i)
		for k := range rounds {
			fmt.Fprintf(&b, `,{"from":"gpt","value":"Look at part %d of it, then go on."},{"from":"tool","value":"Part %d of task %d holds %s."}`,
				k, k, i, strings.Repeat("é ", 20))
		}
		b.WriteString("]}\n")
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCompressKills kills `hermes compress` again and again, its summariser failing now
// and then: every row is in the output once and in its place, within the budget or
// counted, and the input can be had back. HERMES_KILLS is the number of kills.
func TestCompressKills(t *testing.T) {
	const n, target = 10_000, 600
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	kills = max(kills, 3)
	dir := t.TempDir()
	input := trajectories(t, filepath.Join(dir, "in.jsonl"), n)
	s, url := server(t, fakellm.Options{Default: []fakellm.Turn{{Content: "The parts were looked at.", Repeat: true}}, Faults: map[string]float64{"500": 0.03}})
	args := []string{
		"compress", "in.jsonl", "-o", "out.jsonl", "--model-role", "summary=fake@" + url, "--tokenizer", "builtin:words",
		"--target-tokens", strconv.Itoa(target),
		"--summary-tokens", "60", "--concurrency", "8", "--request-retries", "0", "--retries", "0", "--progress", "none", "--json",
	}
	r := rand.New(rand.NewPCG(3, uint64(kills)))
	done := 0
	for ; done < kills; done++ {
		c := hermes(t, dir, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		if waitFor(s, int(s.Stats().Requests)+1+r.IntN(2*3200/kills/3), ended) {
			break
		}
		c.Process.Kill()
		<-ended
	}
	last := hermes(t, dir, args...)
	var said bytes.Buffer
	last.Stderr = &said
	out, err := last.Output()
	if err != nil {
		t.Fatalf("the last start: %v\n%s%s", err, out, said.String())
	}
	if done < kills {
		t.Fatalf("only %d of %d kills happened before the work was over", done, kills)
	}
	var m compress.Metrics
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if m.Rows != n || m.Balance() != nil || m.Compressed == 0 || m.Fallbacks == 0 || m.Summaries["model"] == 0 {
		t.Errorf("%s", out)
	}
	checkCompressed(t, dir, input, m, target)
	if out, err := hermes(t, dir, "compress", "--undo", "out.jsonl", "-o", "back.jsonl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if back, err := os.ReadFile(filepath.Join(dir, "back.jsonl")); err != nil || !bytes.Equal(back, input) {
		t.Errorf("undone, the rows are not what they were: %v", err)
	}
	t.Logf("%d kills, %d rows, %d requests for %d summaries", done, n, s.Stats().Requests, m.Compressed+m.Over)
}

// checkCompressed compares an output with its input and its books, row by row.
func checkCompressed(t *testing.T, dir string, input []byte, m compress.Metrics, target int) {
	t.Helper()
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var rows, changed, long int64
	for was := range bytes.Lines(input) {
		if !lines.Scan() {
			t.Fatalf("the output ends behind %d rows", rows)
		}
		var row struct {
			ID            string
			Conversations []struct{ Value string }
			Compression   *columns.Compression
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.ID != fmt.Sprintf("task-%d", rows) {
			t.Fatalf("row %d is %s", rows, row.ID)
		}
		was = bytes.TrimSuffix(was, []byte("\n"))
		if row.Compression == nil && !bytes.Equal(was, lines.Bytes()) {
			t.Fatalf("row %d was changed and does not say so: %s", rows, lines.Bytes())
		}
		tokens := 0
		for _, turn := range row.Conversations {
			ids, err := tok.Encode(turn.Value, tokenizer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tokens += len(ids)
		}
		if tokens > target {
			long++
		}
		if row.Compression != nil {
			changed++
			if row.Compression.Original != compress.Sum(was) || int(row.Compression.TokensAfter) != tokens {
				t.Fatalf("row %d has %d tokens and says %+v", rows, tokens, row.Compression)
			}
		}
		rows++
	}
	if lines.Scan() {
		t.Errorf("more rows than the input has: %s", lines.Text())
	}
	if changed != m.Compressed+m.Over || long != m.Over+m.Kept {
		t.Errorf("%d rows changed, %d too long; the books say %+v", changed, long, m)
	}
}

// TestCompressExact compresses rows of an exact run: around the summary, which is given,
// every sampled token keeps its mask and its log-prob.
func TestCompressExact(t *testing.T) {
	dir := t.TempDir()
	var rows []string
	for i, rounds := range []int{4, 9} {
		var script []string
		for k := range rounds {
			script = append(script, fmt.Sprintf(`{"content":"step %d","calls":[{"name":"terminal","arguments":{"command":"echo result %d; seq 1 30"}}]}`, k, k))
		}
		rows = append(rows, fmt.Sprintf(`{"id":"r%d","prompt":"Do it.","hermes":{"script":[%s,{"content":"all done"}]}}`, i, strings.Join(script, ",")))
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(strings.Join(rows, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{
			"batch", "rows.jsonl", "--model", "scripted", "--exact", "--wire", "sglang", "--toolsets", "terminal", "--backend",
			"local", "--parquet", "--max-turns", "30", "--max-tokens", "1000", "--run", "x", "--progress", "none",
		},
		{
			"compress", "runs/x/parquet", "-o", "out.parquet", "--tokenizer", "builtin:words", "--summary", "extractive",
			"--target-tokens", "4600", "--summary-tokens", "400", "--progress", "none",
		},
		{"compress", "--undo", "out.parquet", "-o", "part-back.parquet"},
	} {
		if out, err := hermes(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	was := readParts(t, filepath.Join(dir, "runs", "x", "parquet"))
	if err := os.Rename(filepath.Join(dir, "out.parquet"), filepath.Join(dir, "part-out.parquet")); err != nil {
		t.Fatal(err)
	}
	both := readParts(t, dir) // part-back, then part-out
	if len(both) != 4 {
		t.Fatalf("%d rows", len(both))
	}
	for i := range was {
		a, err := json.Marshal(was[i])
		b, berr := json.Marshal(both[i])
		if err != nil || berr != nil || !bytes.Equal(a, b) {
			t.Errorf("undone, row %d is not what it was: %v, %v", i, err, berr)
		}
	}
	of := func(rows []columns.Row, id string) columns.Row { // in the order in which they were finished
		return rows[slices.IndexFunc(rows, func(r columns.Row) bool { return r.ID == id })]
	}
	short, long := of(both[2:], "r0"), of(both[2:], "r1")
	if short.Compression != nil || long.Compression == nil {
		t.Fatalf("compressed: %+v, %+v", short.Compression, long.Compression)
	}
	checkSpliced(t, of(was, "r1"), long)
}

func checkSpliced(t *testing.T, was, now columns.Row) {
	t.Helper()
	a, b := was.Sequences[0], now.Sequences[0]
	n := len(b.Tokens)
	if n > 4600 || n != int(now.Compression.TokensAfter) || len(b.Mask) != n || len(b.LogProbs) != n || len(b.Sampled) != n {
		t.Fatalf("%d tokens, mask %d, log-probs %d, sampled %d; %+v", n, len(b.Mask), len(b.LogProbs), len(b.Sampled), now.Compression)
	}
	head := 0
	for head < n && a.Tokens[head] == b.Tokens[head] {
		head++
	}
	tail := 0
	for tail < n-head && a.Tokens[len(a.Tokens)-1-tail] == b.Tokens[n-1-tail] {
		tail++
	}
	for i := range n {
		at := i // in the row as it was
		if i >= n-tail {
			at += len(a.Tokens) - n
		}
		switch {
		case i >= head && i < n-tail:
			if b.Mask[i] != 0 || b.Sampled[i] || b.LogProbs[i] != 0 {
				t.Fatalf("token %d belongs to the summary and is said to be sampled", i)
			}
		case b.Mask[i] != a.Mask[at] || b.LogProbs[i] != a.LogProbs[at] || b.Sampled[i] != a.Sampled[at]:
			t.Fatalf("token %d, which was token %d: mask %d, log-prob %g; had %d, %g", i, at, b.Mask[i], b.LogProbs[i], a.Mask[at], a.LogProbs[at])
		}
	}
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	var ids []trajectory.Token
	for _, id := range b.Tokens {
		ids = append(ids, trajectory.Token(id))
	}
	text, err := tok.Decode(ids)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(now.Messages, func(m columns.Message) bool { return strings.HasPrefix(m.Content, compress.Mark) })
	if at < 0 || !strings.Contains(text, "<|im_end|>\n<|im_start|>user\n"+now.Messages[at].Content+"<|im_end|>\n<|im_start|>assistant\n") {
		t.Errorf("the summary does not stand in the tokens as the template writes a user's turn:\n%s", text)
	}
}

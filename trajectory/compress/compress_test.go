package compress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/trajectory/compress"
)

// words counts words, so that a test can count too.
type words struct{}

func (words) Count(text string) (int, error) { return len(strings.Fields(text)), nil }

type fixed struct {
	text string
	err  error
}

func (f fixed) Summarize(context.Context, compress.Request) (string, error) { return f.text, f.err }

type turn struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

// talk is a ShareGPT line of n rounds of call and result, of 20 words a turn.
func talk(id, n int) []byte {
	list := []turn{{"system", "You call tools."}, {"human", "task " + fmt.Sprint(id)}}
	for i := range n {
		list = append(list, turn{
			"gpt",
			fmt.Sprintf("call %d ", i) + strings.Repeat("think ", 18),
		}, turn{"tool", fmt.Sprintf("result %d ", i) + strings.Repeat("line ", 18)})
	}
	list = append(list, turn{"gpt", "done"})
	raw, err := json.Marshal(map[string]any{"id": fmt.Sprint(id), "conversations": list, "é": 1.50})
	if err != nil {
		panic(err)
	}
	return raw
}

func read(t *testing.T, line []byte) (row struct {
	Conversations []turn
	Compression   *struct {
		Original               string
		Turns                  int
		TokensAfter            int `json:"tokens_after"`
		TokensBefore           int `json:"tokens_before"`
		Summary, Model, Unused string
	}
}) {
	t.Helper()
	if err := json.Unmarshal(line, &row); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return row
}

func compressor(t *testing.T, o compress.Options) *compress.Compressor {
	t.Helper()
	c, err := compress.New(words{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run compresses lines through files and returns the output's lines.
func run(t *testing.T, c *compress.Compressor, lines ...[]byte) (out [][]byte, m compress.Metrics, path string) {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, append(bytes.Join(lines, []byte("\n")), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "out.jsonl")
	m = work(t, c, path, in)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")), m, path
}

func work(t *testing.T, c *compress.Compressor, out string, in ...string) compress.Metrics {
	t.Helper()
	inputs, err := compress.Find(in)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Run(t.Context(), compress.Job{Inputs: inputs, Out: out, Concurrency: 3})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func count(list []turn) (n int) {
	for _, e := range list {
		n += len(strings.Fields(e.Value))
	}
	return n
}

func TestOnlyAsManyTurnsAsNeeded(t *testing.T) {
	line := talk(1, 10) // 3 + 2 + 20 × 20 + 1 words
	c := compressor(t, compress.Options{Target: 300, Summary: 20, Summarizer: fixed{text: "[CONTEXT SUMMARY]: what came before"}, Model: "m"})
	out, m, path := run(t, c, line)
	row := read(t, out[0])
	// 106 words too many, 20 for the summary: 7 turns of 20, 8 as calls and results stay together.
	if got := len(row.Conversations); got != 23-8+1 {
		t.Fatalf("%d turns", got)
	}
	for i, want := range map[int]string{1: "task 1", 4: "[CONTEXT SUMMARY]: what came before", 5: "call 5 ", 15: "done"} {
		if have := row.Conversations[i].Value; !strings.HasPrefix(have, want) {
			t.Errorf("turn %d is %q, want %q", i, have, want)
		}
	}
	if row.Conversations[4].From != "human" || row.Conversations[0].Value != "You call tools." {
		t.Errorf("%+v", row.Conversations[:5])
	}
	if n := count(row.Conversations); n > 300 || n != row.Compression.TokensAfter || row.Compression.TokensBefore != 406 {
		t.Errorf("%d words, %+v", n, row.Compression)
	}
	if row.Compression.Original != compress.Sum(line) || row.Compression.Turns != 8 || row.Compression.Model != "m" {
		t.Errorf("%+v", row.Compression)
	}
	if !bytes.Contains(out[0], []byte(`"é":1.5`)) {
		t.Errorf("other members changed: %s", out[0])
	}
	if m.Rows != 1 || m.Compressed != 1 || m.Summaries["model"] != 1 {
		t.Errorf("%+v", m)
	}
	back := filepath.Join(filepath.Dir(path), "back.jsonl")
	u, err := compress.Undo(path, path+compress.OriginalSuffix, back, "")
	if err != nil || u.Restored != 1 || u.Missing != 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if raw, err := os.ReadFile(back); err != nil || string(raw) != string(line)+"\n" {
		t.Errorf("undone: %s, %v", raw, err)
	}
}

// A row that cannot be compressed is kept byte for byte, and counted.
func TestNothingIsDropped(t *testing.T) {
	lines := [][]byte{
		talk(0, 1),
		[]byte(`{"conversations": [{"from": "gpt", "value": "` + strings.Repeat("long ", 500) + `"}]}`),
		[]byte(`{"no": "conversation"}`), []byte(`broken {`), []byte(`{"conversations":[{"from":"martian","value":"x"}]}`),
		[]byte(`{"messages":[]}`), talk(5, 30),
	}
	out, m, _ := run(t, compressor(t, compress.Options{Target: 100, Summary: 40}), lines...)
	if len(out) != len(lines) {
		t.Fatalf("%d rows", len(out))
	}
	for i := range lines[:6] {
		if !bytes.Equal(out[i], lines[i]) {
			t.Errorf("row %d became %s", i, out[i])
		}
	}
	// The tail is 81 words (its first result keeps its call), the head 45: no summary makes that fit.
	if m.Under != 2 || m.Kept != 1 || m.Unreadable != 3 || m.Over != 1 || m.Compressed != 0 || m.Balance() != nil {
		t.Errorf("%+v", m)
	}
	if n := count(read(t, out[6]).Conversations); n > 81+45+40+16 {
		t.Errorf("%d words are left", n)
	}
}

func TestMessages(t *testing.T) {
	call := `{"role":"assistant","content":null,"reasoning_content":"` + strings.Repeat("hm ",
		20) + `","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"b"}]}`
	results := `{"role":"tool","tool_call_id":"a","content":"` + strings.Repeat("x ",
		20) + `"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"y"}]}`
	line := `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}` + strings.Repeat(","+call+","+results,
		8) + `,{"role":"assistant","content":"end"}],"tools":[]}`
	out, m, _ := run(t, compressor(t, compress.Options{Target: 250, Summary: 30}), []byte(line))
	var row struct {
		Messages []struct {
			Role, Content any
			Calls         []any `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(out[0], &row); err != nil || m.Compressed != 1 {
		t.Fatalf("%v, %+v", err, m)
	}
	open := 0
	for i, msg := range row.Messages {
		switch {
		case msg.Role == "tool":
			open--
		case open != 0:
			t.Fatalf("message %d: %d calls before it have no result", i, open)
		default:
			open = len(msg.Calls)
		}
	}
	if c, _ := row.Messages[5].Content.(string); !strings.HasPrefix(c, compress.Mark) || row.Messages[5].Role != "user" {
		t.Errorf("%+v", row.Messages[5])
	}
}

func TestFallback(t *testing.T) {
	for name, f := range map[string]fixed{"failed": {err: errors.New("503")}, "empty": {text: " \n"}} {
		out, m, _ := run(t, compressor(t, compress.Options{Target: 300, Summary: 150, Summarizer: f, Model: "m"}), talk(1, 10))
		row := read(t, out[0])
		if m.Fallbacks != 1 || m.Compressed != 1 || row.Compression.Summary != "extractive" || row.Compression.Model != "" {
			t.Errorf("%s: %+v, %+v", name, m, row.Compression)
		}
		if s := row.Conversations[4].Value; !strings.Contains(s, "assistant: call 1") || !strings.Contains(s, "tool: result 1") {
			t.Errorf("%s: the extract is %q", name, s)
		}
	}
	out, m, _ := run(t, compressor(t, compress.Options{Target: 300, Summary: 20, Summarizer: fixed{text: strings.Repeat("wörter ", 5000)}}), talk(1, 10))
	if n := count(read(t, out[0]).Conversations); m.Cut != 1 || n > 300 {
		t.Errorf("a long summary: %d words, %+v", n, m)
	}
}

func TestStops(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	if err := os.WriteFile(in, append(append(talk(0, 1), '\n'), talk(1, 10)...), 0o644); err != nil {
		t.Fatal(err)
	}
	inputs, err := compress.Find([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	o := compress.Options{Target: 300, Summary: 20, Summarizer: fixed{err: &compress.StopError{Err: errors.New("no money")}}}
	m, err := compressor(t, o).Run(t.Context(), compress.Job{Inputs: inputs, Out: out})
	var stop *compress.StopError
	if !errors.As(err, &stop) || m.Rows > 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("an output that is not whole has its name")
	}
	o.Summarizer = fixed{text: "fine"}
	if _, err := compressor(t, o).Run(t.Context(), compress.Job{
		Inputs:   inputs,
		Out:      out,
		Identity: compress.Identity{Summarizer: "another"},
	}); err == nil || !strings.Contains(err.Error(), "Summarizer was") {
		t.Errorf("other work under the same name: %v", err)
	}
	m, err = compressor(t, o).Run(t.Context(), compress.Job{Inputs: inputs, Out: out})
	if err != nil || m.Rows != 2 || m.Compressed != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if again, err := compressor(t, o).Run(t.Context(), compress.Job{Inputs: inputs, Out: out}); err != nil || again.Rows != 2 {
		t.Errorf("finished work: %+v, %v", again, err)
	}
}

// TestTakenUpAnywhere cuts the files of unfinished work as kills and power cuts leave them. The
// output is that of work without interruption.
func TestTakenUpAnywhere(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	var text []byte
	for i := range 300 {
		text = append(append(text, talk(i, 1+i%12)...), '\n')
	}
	if err := os.WriteFile(in, text, 0o644); err != nil {
		t.Fatal(err)
	}
	c := compressor(t, compress.Options{Target: 200, Summary: 30, Summarizer: fixed{text: "short"}})
	whole := filepath.Join(dir, "whole.jsonl")
	want := work(t, c, whole, in)
	files := map[string][]byte{}
	for suffix, name := range map[string]string{
		".part":                 whole,
		".rows.jsonl":           whole + ".rows.jsonl",
		compress.OriginalSuffix: whole + compress.OriginalSuffix,
	} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[suffix] = raw
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 12 {
		out := filepath.Join(dir, fmt.Sprintf("cut%d.jsonl", i))
		rows := files[".rows.jsonl"][:rnd.IntN(len(files[".rows.jsonl"])+1)]
		for suffix, raw := range files {
			switch {
			case suffix == ".rows.jsonl":
				raw = rows
			case i%2 == 1: // the log outlived the data of its last rows
				n := bytes.Count(rows, []byte("\n"))
				keep := lineEnd(raw, max(0, min(n-rnd.IntN(100), bytes.Count(raw, []byte("\n")))))
				raw = append(bytes.Clone(raw[:keep]), make([]byte, rnd.IntN(50))...) // blocks without data
			}
			if err := os.WriteFile(out+suffix, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := work(t, c, out, in)
		for suffix, name := range map[string]string{".part": out, compress.OriginalSuffix: out + compress.OriginalSuffix} {
			raw, err := os.ReadFile(name)
			if err != nil || !bytes.Equal(raw, files[suffix]) {
				t.Fatalf("cut %d: %s differs (%d bytes, %d wanted): %v", i, suffix, len(raw), len(files[suffix]), err)
			}
		}
		got.Seconds, want.Seconds = 0, 0
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("cut %d: %+v, want %+v", i, got, want)
		}
	}
}

// lineEnd is where the n-th line ends.
func lineEnd(raw []byte, n int) int {
	at := 0
	for range n {
		at += bytes.IndexByte(raw[at:], '\n') + 1
	}
	return at
}

func TestAnotherInput(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	write := func(first int) {
		if err := os.WriteFile(in, bytes.Join([][]byte{talk(first, 9), talk(2, 9)}, []byte("\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	c := compressor(t, compress.Options{Target: 300, Summary: 20})
	work(t, c, out, in)
	if err := os.Rename(out, out+".part"); err != nil {
		t.Fatal(err)
	}
	write(3)
	inputs, err := compress.Find([]string{in})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context(), compress.Job{Inputs: inputs, Out: out, Concurrency: 3})
	var other *compress.OtherError
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "row 0 of the input is not what it was") {
		t.Errorf("%v", err)
	}
}

// FuzzLine: whatever a line holds, it comes out once: as it was, or as valid JSON within
// the books.
func FuzzLine(f *testing.F) {
	f.Add(talk(1, 6))
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"}],"compression":3}`))
	f.Add([]byte(`{"conversations":[],"conversations":{}}`))
	c, err := compress.New(words{}, compress.Options{Target: 40, Summary: 16, Tail: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := c.Line(t.Context(), "k", line)
		if err != nil {
			t.Fatal(err)
		}
		row := r.Row()
		if (row != nil) != (r.Status == compress.Compressed || r.Status == compress.Over) {
			t.Fatalf("%q: %s with a new row %q", line, r.Status, row)
		}
		if row != nil && (!json.Valid(row) || bytes.ContainsRune(row, '\n') || r.TokensAfter >= r.TokensBefore) {
			t.Fatalf("%q became %q: %+v", line, row, r)
		}
		if again, _ := c.Line(t.Context(), "k", line); !bytes.Equal(again.Row(), row) {
			t.Fatalf("%q: %q, then %q", line, row, again.Row())
		}
	})
}

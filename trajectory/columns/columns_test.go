package columns_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"hermes/trajectory"
	"hermes/trajectory/columns"
)

func exact(t *testing.T) *trajectory.Record {
	t.Helper()
	tr := trajectory.New(trajectory.ModeExact, nil)
	commit := func(fork bool, given, sampled []trajectory.Token, version string) trajectory.NodeID {
		id, err := tr.Commit(trajectory.Turn{Fork: fork,
			Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "ask"), Tokens: given, Given: len(given)}},
			Sampled: trajectory.Delta{Message: trajectory.Message{Role: trajectory.Assistant, Reasoning: "hm",
				Calls: []trajectory.Call{{ID: "c", Name: "terminal", Arguments: `{"a": 1}`}}},
				Tokens: sampled, LogProbs: make([]float32, len(sampled)), Versions: []trajectory.Span{{From: 0, Version: version}},
				Extras: []trajectory.Block{{Name: "topk_ids", Dtype: "int32", Shape: []int{len(sampled), 2}, Blob: "b1"},
					{Name: "routed_experts", Dtype: "uint8", Shape: []int{9, 1, 2}, Blob: "b2"}}},
			Finish: trajectory.FinishStop})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := commit(false, []trajectory.Token{1, 2}, []trajectory.Token{3, 4}, "v1")
	commit(false, []trajectory.Token{5}, []trajectory.Token{6}, "v2")
	if err := tr.Rewind(first, trajectory.Branch); err != nil {
		t.Fatal(err)
	}
	commit(false, []trajectory.Token{7}, []trajectory.Token{8, 9}, "v1")
	tr.Finish([]trajectory.Message{{Role: trajectory.User, Ephemeral: true, Parts: []trajectory.Part{{Kind: "text", Text: "SECRET"}}}})
	return &trajectory.Record{
		Key: trajectory.NewKey("é", 0, 0, 1), Row: "é", Sample: 1, Outcome: trajectory.Answered, Trace: tr,
		Score:     &trajectory.Score{Reward: 0.5, Parts: map[string]float64{"b": 1, "a": 2}, Metrics: map[string]float64{"x": 3}},
		Tools:     []trajectory.ToolSpec{{Name: "terminal", Parameters: json.RawMessage(`{}`)}},
		ToolStats: map[string]trajectory.ToolCount{"terminal": {Count: 1, Failure: 1}, "a": {}, "z": {}},
		Started:   time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Toolsets: []string{"t"}, Metadata: json.RawMessage(`{"k":1}`),
	}
}

// A sampled token without a log-prob is in the sequence, and not in the mask.
func TestMaskedTokensAreNotTrained(t *testing.T) {
	tr := trajectory.New(trajectory.ModeExact, nil)
	for range 2 {
		_, err := tr.Commit(trajectory.Turn{Finish: trajectory.FinishStop,
			Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "q"), Tokens: []trajectory.Token{1}, Given: 1}},
			Sampled: trajectory.Delta{
				Message:  trajectory.Text(trajectory.Assistant, "é"),
				Tokens:   []trajectory.Token{2, 3, 4, 5},
				Given:    1,
				LogProbs: []float32{0, 0, -2},
				Masked:   []trajectory.Run{{From: 0, To: 1}},
			}})
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.Finish(nil)
	q := columns.NewRow(&trajectory.Record{Row: "r", Trace: tr}).Sequences[0]
	if want := []int32{0, 0, 0, 1, 1, 0, 0, 0, 1, 1}; !reflect.DeepEqual(q.Mask, want) {
		t.Errorf("mask %v, want %v", q.Mask, want)
	}
	if want := []bool{false, false, true, true, true, false, false, true, true, true}; !reflect.DeepEqual(q.Sampled, want) {
		t.Errorf("sampled %v, want %v", q.Sampled, want)
	}
	if want := []float32{0, 0, 0, 0, -2, 0, 0, 0, 0, -2}; !reflect.DeepEqual(q.LogProbs, want) {
		t.Errorf("log-probs %v, want %v", q.LogProbs, want)
	}
}

func file(t *testing.T, recs ...*trajectory.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := columns.NewWriter(&b, "hermes", "raw")
	for _, r := range recs {
		if _, err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRowsComeBack(t *testing.T) {
	r := exact(t)
	text := &trajectory.Record{Row: "plain", Outcome: trajectory.Truncated, Started: r.Started}
	b := file(t, r, text)
	rows, err := columns.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	got := rows[0]
	if got.ID != "é" || *got.Reward != 0.5 || !reflect.DeepEqual(got.Rewards, []columns.Named{{"a", 2}, {"b", 1}}) || got.Metrics[0].Value != 3 ||
		!got.Started.Equal(r.Started) || got.ToolStats[1].Failure != 1 {
		t.Errorf("%+v", got)
	}
	if len(got.Messages) != 4 || *got.Messages[1].Reasoning != "hm" || got.Messages[1].Calls[0].Function.Arguments != `{"a": 1}` {
		t.Errorf("messages %+v", got.Messages)
	}
	extras := func(from ...int64) (list []columns.Extra) { // of the answers and, in turn, of their experts
		for i := 0; i < len(from); i += 3 {
			list = append(list, columns.Extra{Name: "topk_ids", Dtype: "int32", Shape: []int64{from[i+1], 2}, Blob: "b1", From: from[i]},
				columns.Extra{Name: "routed_experts", Dtype: "uint8", Shape: []int64{9, 1, 2}, Blob: "b2", From: from[i+2]})
		}
		return list
	}
	want := []columns.Sequence{
		{Tokens: []int32{1, 2, 3, 4, 5, 6}, Mask: []int32{0, 0, 1, 1, 0, 1}, LogProbs: make([]float32, 6),
			Sampled: []bool{false, false, true, true, false, true}, Versions: []columns.Version{{2, "v1"}, {5, "v2"}}, Extras: extras(2, 2, 0, 5, 1, 3)},
		{Tokens: []int32{1, 2, 3, 4, 7, 8, 9}, Mask: []int32{0, 0, 0, 0, 0, 1, 1}, LogProbs: make([]float32, 7),
			Sampled: []bool{false, false, true, true, false, true, true}, Versions: []columns.Version{{2, "v1"}}, Extras: extras(2, 2, 0, 5, 2, 3)},
	}
	if !reflect.DeepEqual(got.Sequences, want) {
		t.Errorf("sequences\n got %+v\nwant %+v", got.Sequences, want)
	}
	if rows[1].Reward != nil || len(rows[1].Sequences) != 0 {
		t.Errorf("%+v", rows[1])
	}
	if bytes.Contains(b, []byte("SECRET")) {
		t.Error("an ephemeral message was written")
	}
}

func TestSameRecordsSameBytes(t *testing.T) {
	r := exact(t)
	first := file(t, r, r)
	for range 20 {
		if !bytes.Equal(first, file(t, r, r)) {
			t.Fatal("the bytes differ")
		}
	}
}

// TestPyArrowReadsIt asks the Python that ORACLE_PYTHON names, or python3.
func TestPyArrowReadsIt(t *testing.T) {
	python := cmp.Or(os.Getenv("ORACLE_PYTHON"), "python3")
	if err := exec.Command(python, "-c", "import pyarrow.parquet").Run(); err != nil {
		t.Skipf("%s has no pyarrow: %v", python, err)
	}
	name := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(name, file(t, exact(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, pyarrow.parquet as pq
r = pq.read_table(sys.argv[1]).to_pylist()[0]
print(r["id"], r["sequences"][1]["tokens"], r["messages"][1]["tool_calls"][0]["function"]["name"], r["messages"][0]["tool_calls"], r["rewards"][0])`, name).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "é [1, 2, 3, 4, 7, 8, 9] terminal None {'name': 'a', 'value': 2.0}" {
		t.Errorf("%v: %s", err, got)
	}
}

// TestOldCallsAreForeign: a file whose calls lie flat is refused with what helps, and not read
// as one without calls.
func TestOldCallsAreForeign(t *testing.T) {
	type call struct {
		ID        string `parquet:"id"`
		Name      string `parquet:"name"`
		Arguments string `parquet:"arguments"`
	}
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
		Calls   []call `parquet:"tool_calls,list"`
	}
	type row struct {
		ID       string    `parquet:"id"`
		Messages []message `parquet:"messages,list"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	if _, err := w.Write([]row{{"a", []message{{"assistant", "", []call{{"c", "terminal", "{}"}}}}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := columns.Read(bytes.NewReader(b.Bytes()), int64(b.Len())); !errors.Is(err, columns.ErrForeign) ||
		!strings.Contains(err.Error(), "hermes runs export") {
		t.Errorf("%v", err)
	}
}

// TestPagesAreLookedAt: what [columns.Pages] refuses is no row.
func TestPagesAreLookedAt(t *testing.T) {
	var b bytes.Buffer
	if err := parquet.Write(&b, []columns.Row{{ID: "a"}}, parquet.Compression(&parquet.Lz4Raw)); err != nil {
		t.Fatal(err)
	}
	if rows, err := columns.Read(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil || !strings.Contains(err.Error(), "LZ4") {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestVerdictsInColumns: the state of a call that was not complete and the faults of its answer
// are in the file; what has nothing to say has nulls there.
func TestVerdictsInColumns(t *testing.T) {
	r := exact(t)
	last := &r.Trace.Nodes[r.Trace.Head]
	last.Delta.Message.Calls = append(last.Delta.Message.Calls, trajectory.Call{ID: "d", Name: "terminal", Arguments: "{", State: trajectory.CallTruncated})
	last.Faults = []trajectory.Fault{{Kind: "truncated", Message: "é", From: 2, To: 9}}
	raw := file(t, r)
	rows, err := columns.Read(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range rows[0].Messages {
		for k, c := range m.Calls {
			said := c.State != nil && *c.State == "truncated"
			if want := c.ID == "d"; said != want || !want && c.State != nil {
				t.Errorf("message %d, call %d: state %v", i, k, c.State)
			}
		}
		if want := len(m.Calls) == 2; (len(m.Faults) == 1) != want {
			t.Errorf("message %d: faults %+v", i, m.Faults)
		}
	}
	if f := rows[0].Messages[len(rows[0].Messages)-1].Faults; len(f) != 1 || f[0] != (columns.Fault{Kind: "truncated", Message: "é", From: 2, To: 9}) {
		t.Errorf("faults %+v", f)
	}
}

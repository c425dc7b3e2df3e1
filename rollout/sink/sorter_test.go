package sink_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// said is an answered sample of a row that ran one command with an id of the server's.
func said(row string, sample int, text, id string) *trajectory.Record {
	t := trajectory.New(trajectory.ModeText, nil)
	answer := trajectory.Text(trajectory.Assistant, text)
	answer.Calls = []trajectory.Call{{ID: id, Name: "terminal", Arguments: `{}`}}
	if _, err := t.Commit(trajectory.Turn{Finish: trajectory.FinishCalls, Sampled: trajectory.Delta{Message: answer},
		Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, row)}}}); err != nil {
		panic(err)
	}
	t.Finish([]trajectory.Message{{Role: trajectory.Tool, CallID: id, Parts: []trajectory.Part{{Kind: trajectory.PartText, Text: "x"}}}})
	return &trajectory.Record{Key: trajectory.NewKey(row, 0, 0, sample), Row: row, Sample: sample, Attempt: 1, Outcome: trajectory.Answered,
		Score: &trajectory.Score{Reward: 1}, Trace: t}
}

// TestDuplicates: of equal samples of one row the first in the log is kept. A failure, or a
// sample that is rejected for another reason, hides no other sample.
func TestDuplicates(t *testing.T) {
	disk := journaltest.NewDisk()
	must(t, 0, disk.MkdirAll(dir))
	j := must2(journal.Open(dir+"/journal", journal.Options{FS: disk}))(t)
	m := manifest(9)
	m.Books.Dedup, m.Extent.Rollouts, m.Books.Accept = true, 5, "passed"
	failed := said("a", 3, "same", "id1")
	failed.Outcome = trajectory.Provider
	failed.Score = nil
	failed.Reason = "503"
	low := said("a", 4, "same", "id2")
	low.Score.Reward = 0
	for _, r := range []*trajectory.Record{
		failed, low, said("a", 2, "same", "id3"), said("b", 0, "same", "id4"), said("a", 0, "same", "id5"),
		said("a", 1, "other", "id6"),
	} {
		must2(j.Append(t.Context(), r))(t)
	}
	must(t, 0, j.Reopen(t.Context(), []trajectory.Key{failed.Key}))
	must2(j.Append(t.Context(), said("a", 3, "same", "id7")))(t)
	p := must2(sink.New(j, dir, m, sink.Options{FS: disk}))(t)
	s := must2(p.Finish(t.Context()))(t)
	if s.Accepted != 3 || s.Rejected["duplicate"] != 2 || s.Rejected["low_reward"] != 1 || s.Pending != 3 {
		t.Errorf("%+v", s)
	}
	files := contents(t, disk)
	for line := range strings.Lines(files["/run/failed_trajectories.jsonl"]) {
		var row struct {
			ID, Reason string
			Sample     int
		}
		must(t, 0, json.Unmarshal([]byte(line), &row))
		want := "the same conversation as sample 2"
		if row.Sample == 4 {
			want = "reward 0 is less than 1"
		}
		if row.Reason != want {
			t.Errorf("sample %d of %s: reason %q, want %q", row.Sample, row.ID, row.Reason, want)
		}
	}
	if !strings.Contains(files["/run/report.md"], "rejected.duplicate") {
		t.Errorf("the report says nothing of duplicates:\n%s", files["/run/report.md"])
	}
}

// TestDuplicatesBeyondMemory: what the sorter has forgotten it reads again. The answer is
// that of a set of all conversations.
func TestDuplicatesBeyondMemory(t *testing.T) {
	disk := journaltest.NewDisk()
	must(t, 0, disk.MkdirAll(dir))
	j := must2(journal.Open(dir+"/journal", journal.Options{FS: disk}))(t)
	m := manifest(0)
	m.Books.Dedup, m.Extent.Rollouts = true, 6
	r := rand.New(rand.NewPCG(1, 2))
	type sample struct{ row, n int }
	var order []sample
	for row := range 40 {
		for n := range 6 {
			order = append(order, sample{row, n})
		}
	}
	r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	for _, s := range order {
		must2(j.Append(t.Context(), said(fmt.Sprint(s.row), s.n, fmt.Sprint("text ", r.IntN(4)), "id")))(t)
	}
	for _, remembered := range []int{1, 16, 1 << 20} {
		sorter := must2(sink.NewSorter(j, m))(t)
		sorter.Remember(remembered)
		seen := map[[32]byte]bool{}
		for e, err := range j.Records(t.Context(), 0) {
			must(t, 0, err)
			rec := must2(e.Record())(t)
			sum := rec.Trace.Digest()
			in := must2(sorter.Enter(e.At, rec))(t)
			if (in.Book == stats.Rejected) != seen[sum] {
				t.Fatalf("%d remembered: %s/%d enters %+v; seen before: %v", remembered, rec.Row, rec.Sample, in, seen[sum])
			}
			seen[sum] = true
		}
	}
}

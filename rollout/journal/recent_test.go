package journal_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/trajectory"
)

// sayer makes a record in which a model says text.
func sayer(i int, text string) *trajectory.Record {
	trace := trajectory.New(trajectory.ModeText, []trajectory.ToolSpec{{Name: "t", Parameters: json.RawMessage("{ \"type\": \"object\" }")}, {Name: "u"}})
	turn := trajectory.Turn{Finish: trajectory.FinishStop, Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text)},
		Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "<go>")}}}
	if _, err := trace.Commit(turn); err != nil {
		panic(err)
	}
	return &trajectory.Record{Key: trajectory.NewKey(fmt.Sprint(i), 0, 0, 0), Row: fmt.Sprint(i), Attempt: 1, Outcome: trajectory.Answered,
		Started: time.Now().UTC(), Metadata: json.RawMessage(" {\"a\" : 1}"), Trace: trace}
}

// TestRememberedIsWhatIsRead: who follows the log gets from memory what the log holds, and
// the log itself where memory has nothing.
func TestRememberedIsWhatIsRead(t *testing.T) {
	disk := journaltest.NewDisk()
	j, err := journal.Open("/log", journal.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"plain", "é ☃ \u2028 <&>", "broken \xff", "a real \ufffd", ""}
	j.Remember(1 << 20)
	records := map[trajectory.Key]*trajectory.Record{}
	for i, text := range texts {
		r := sayer(i, text)
		if _, err := j.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		records[r.Key] = r
	}
	var read []*trajectory.Record
	for e, err := range j.Records(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Record()
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, r)
	}
	shared := 0
	for round := range 2 {
		n := 0
		for e, err := range j.Follow(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Record()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r, read[n]) {
				t.Errorf("round %d, %q: %+v, the log has %+v", round, texts[n], r, read[n])
			}
			if &r.Trace.Nodes[0] == &records[r.Key].Trace.Nodes[0] {
				shared++
			}
			n++
		}
	}
	if want := len(texts) - 1; shared != want { // once, and not the text that the log changes
		t.Errorf("%d records came from memory, want %d", shared, want)
	}
}

// TestRememberIsBounded: what a slow reader leaves in memory is bounded by its size in the log,
// however much is appended, and nothing is lost.
func TestRememberIsBounded(t *testing.T) {
	disk := journaltest.NewDisk()
	j, err := journal.Open("/log", journal.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	const n, limit = 60, 4000
	j.Remember(limit)
	records := make([]*trajectory.Record, n)
	var all sync.WaitGroup
	for i := range n {
		records[i] = sayer(i, "some text")
		all.Go(func() {
			if _, err := j.Append(t.Context(), records[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen, shared := 0, 0
	for e, err := range j.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Record()
		if err != nil {
			t.Fatal(err)
		}
		var i int
		if _, err := fmt.Sscan(r.Row, &i); err != nil {
			t.Fatal(err)
		}
		seen++
		if &r.Trace.Nodes[0] == &records[i].Trace.Nodes[0] {
			shared++
		}
	}
	if seen != n || shared == 0 || shared > limit/300 { // a payload here has more than 300 bytes
		t.Errorf("%d of %d records, %d from memory", seen, n, shared)
	}
	j.Remember(0)
	if _, err := j.Append(t.Context(), sayer(n, "more")); err != nil {
		t.Fatal(err)
	}
}

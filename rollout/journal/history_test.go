package journal_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// store keeps one-byte answers for the turns of a key, as an attempt that first replays
// `replay` of the stored ones.
func store(t *testing.T, j *journal.Journal, i, attempt, replay int, answers string) {
	t.Helper()
	tape, err := journal.NewTape(j, key(i), attempt, true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range replay {
		if _, ok := tape.Lookup([32]byte{byte(n)}); !ok {
			t.Fatalf("attempt %d of key %d: answer %d is not stored", attempt, i, n)
		}
	}
	for n, a := range []byte(answers) {
		if err := tape.Store([32]byte{byte(replay + n)}, []byte{a}); err != nil {
			t.Fatal(err)
		}
	}
}

// A history holds the answers that led to the record: not those that were bought again,
// nor those of a failure that was reopened, also across segments and processes.
func TestHistories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, dir, journal.Options{SegmentSize: 600})
	store(t, j, 1, 1, 0, "abcd")
	store(t, j, 2, 1, 0, "xy")
	if _, err := j.AppendAttempt(t.Context(), record(1, 2, trajectory.Sandbox)); err != nil {
		t.Fatal(err)
	}
	store(t, j, 1, 2, 2, "CD")
	mustAppend(t, j, record(2, 2, trajectory.Provider))
	mustAppend(t, j, record(1, 2, trajectory.Answered))
	if err := j.Reopen(t.Context(), []trajectory.Key{key(2)}); err != nil {
		t.Fatal(err)
	}
	store(t, j, 2, 2, 0, "z")
	mustAppend(t, j, record(2, 2, trajectory.Answered))
	mustAppend(t, j, record(3, 2, trajectory.Answered))
	store(t, j, 4, 1, 0, "unfinished")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, journal.Options{ReadOnly: true})
	defer j.Close()
	if n := j.Stats().Segments; n < 2 {
		t.Fatalf("%d segments: the test needs several", n)
	}
	type found struct {
		row, answers string
		current      bool
	}
	var got []found
	for h, err := range j.Histories(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := h.Record()
		if err != nil {
			t.Fatal(err)
		}
		f := found{row: rec.Row, current: h.Current}
		for turn, err := range h.Turns() {
			if err != nil || turn.Digest != [32]byte{byte(len(f.answers))} {
				t.Fatalf("%s, answer %q: digest %x, %v", rec.Row, turn.Answer, turn.Digest[:4], err)
			}
			f.answers += string(turn.Answer)
		}
		got = append(got, f)
	}
	want := []found{{"row2", "xy", false}, {"row1", "abCD", true}, {"row2", "z", true}, {"row3", "", true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("histories %v, want %v", got, want)
	}
}

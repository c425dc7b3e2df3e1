package journal_test

import (
	"reflect"
	"strings"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/trajectory"
)

// FuzzLog opens arbitrary bytes as a log. Whatever can be read must be read the same when
// the log is opened for writing, closed and opened once more, and must verify. What cannot
// be read is in order after a repair.
func FuzzLog(f *testing.F) {
	for _, size := range []int{1, 5000} {
		disk := journaltest.NewDisk()
		j := open(f, "/j", journal.Options{FS: disk})
		if err := j.Turn(key(1), 1, digest(1), []byte("answer")); err != nil {
			f.Fatal(err)
		}
		mustAppend(f, j, record(1, size, trajectory.Provider))
		if err := j.Reopen(f.Context(), []trajectory.Key{key(1)}); err != nil {
			f.Fatal(err)
		}
		b, err := journal.ReadFile(disk, "/j/0000000000000000.log")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-3])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		name := "/j/0000000000000000.log"
		files := map[string][]byte{name: b}
		disk := frames{}.disk(t, files)
		if _, err := journal.Repair(t.Context(), "/j", journal.Options{FS: disk}); err == nil {
			if _, ok := contents(t, disk, journal.Options{FS: disk}); !ok {
				t.Fatal("repaired, but not in order")
			}
		} else if !strings.Contains(err.Error(), "frame version") {
			t.Fatal(err)
		}
		disk = frames{}.disk(t, files)
		first, ok := contents(t, disk, journal.Options{FS: disk, ReadOnly: true})
		if !ok {
			return
		}
		j, err := journal.Open("/j", journal.Options{FS: disk})
		if err != nil {
			t.Fatalf("readable, but cannot be opened for writing: %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if again, ok := contents(t, disk, journal.Options{
			FS:       disk,
			ReadOnly: true,
		}); !ok || len(again) < len(first) || len(first) > 0 && !reflect.DeepEqual(first, again[:len(first)]) {
			t.Fatalf("%d records became %d", len(first), len(again))
		}
	})
}

func contents(t *testing.T, disk journal.FS, o journal.Options) ([]*trajectory.Record, bool) {
	j, err := journal.Open("/j", o)
	if err != nil {
		return nil, false
	}
	if j.Verify(t.Context()) != nil {
		return nil, false
	}
	var list []*trajectory.Record
	for e, err := range j.Records(t.Context(), 0) {
		if err != nil {
			return nil, false
		}
		if e.Kind == journal.KindFinal || e.Kind == journal.KindAttempt {
			r, err := e.Record()
			if err != nil {
				t.Fatalf("verified, but unreadable: %v", err)
			}
			list = append(list, r)
		}
	}
	return list, true
}

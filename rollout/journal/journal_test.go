package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

var _ policy.Tape = (*journal.Tape)(nil)

func key(i int) trajectory.Key { return trajectory.NewKey(fmt.Sprint("row", i), 0, 0, 0) }

// record makes a record of some bytes; exact ones have tokens.
func record(i, size int, o trajectory.Outcome) *trajectory.Record {
	r := &trajectory.Record{
		Key: key(i), Group: fmt.Sprint("g", i), Row: fmt.Sprint("row", i), PromptIndex: int64(i), Attempt: 1, Outcome: o,
		Started: time.Unix(1700000000, 0).UTC(), Tools: []trajectory.ToolSpec{{Name: "terminal", Parameters: []byte(`{}`)}},
	}
	t := trajectory.New(trajectory.ModeExact, r.Tools)
	_, err := t.Commit(trajectory.Turn{
		Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "<do> & é"), Tokens: []trajectory.Token{1, 2}, Given: 2}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, strings.Repeat("ab", size/2)),
			Tokens: []trajectory.Token{3, 4, 5}, Given: 1, LogProbs: []float32{-0.5, -1e-9}},
		Finish: trajectory.FinishStop,
	})
	if err != nil {
		panic(err)
	}
	t.Finish(nil)
	r.Trace = t
	return r
}

func open(t testing.TB, dir string, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustAppend(t testing.TB, j *journal.Journal, r *trajectory.Record) journal.Offset {
	t.Helper()
	at, err := j.Append(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestRecordsComeBackWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "journal")
	j := open(t, dir, journal.Options{SegmentSize: 2000})
	want := map[trajectory.Key]*trajectory.Record{}
	for i := range 20 {
		r := record(i, 100*i*i, trajectory.Answered)
		r.Children = []*trajectory.Record{record(i+1000, 10, trajectory.Answered)}
		want[r.Key] = r
		mustAppend(t, j, r)
	}
	for round := range 2 {
		n := 0
		for e, err := range j.Records(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Record()
			if err != nil {
				t.Fatal(err)
			}
			if !e.Current || e.Group != got.Group || !reflect.DeepEqual(got, want[e.Key]) {
				t.Fatalf("round %d: record %s came back as %+v", round, e.Key, got)
			}
			n++
		}
		if s := j.Stats(); n != 20 || s.Done != 20 || s.Segments < 3 {
			t.Fatalf("round %d: %d records, %+v", round, n, s)
		}
		if err := j.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, dir, journal.Options{SegmentSize: 2000})
	}
	if _, err := j.Append(t.Context(), record(3, 1, trajectory.Answered)); !errors.Is(err, journal.ErrDone) {
		t.Errorf("a second final record: %v", err)
	}
	j.Close()
}

func TestReopenAndAttempts(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	ctx := t.Context()
	if _, err := j.AppendAttempt(ctx, record(1, 5, trajectory.Sandbox)); err != nil || j.Done(key(1)) {
		t.Fatal("an attempt makes no key done", err)
	}
	mustAppend(t, j, record(1, 5, trajectory.Provider))
	mustAppend(t, j, record(2, 5, trajectory.Answered))
	if got := j.Failed(); len(got) != 1 || got[0] != key(1) {
		t.Fatalf("failed: %v", got)
	}
	if err := j.Reopen(ctx, []trajectory.Key{key(1), key(2)}); err == nil || !strings.Contains(err.Error(), "answered") {
		t.Errorf("an accepted record was reopened: %v", err)
	}
	if err := j.Reopen(ctx, []trajectory.Key{key(1), key(9)}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j = open(t, dir, journal.Options{})
	if j.Done(key(1)) || !j.Done(key(2)) {
		t.Fatal("reopen did not last")
	}
	mustAppend(t, j, record(1, 5, trajectory.Answered))
	var current []string
	for e, err := range j.Records(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Current {
			current = append(current, fmt.Sprint(e.Kind, " ", e.Outcome))
		}
	}
	if got := strings.Join(current, ","); got != "final answered,final answered" {
		t.Errorf("current entries: %s", got)
	}
	if s := j.Stats(); s.Attempts != 1 || s.Finals != 3 || s.Reopens != 1 || s.Done != 2 {
		t.Errorf("%+v", s)
	}
	if err := j.Cursor(ctx, []byte("step 7")); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j = open(t, dir, journal.Options{ReadOnly: true})
	if b, ok, err := j.LastCursor(); string(b) != "step 7" || !ok || err != nil {
		t.Errorf("cursor %q %v %v", b, ok, err)
	}
	if _, err := j.Append(ctx, record(5, 1, trajectory.Answered)); !errors.Is(err, journal.ErrReadOnly) {
		t.Errorf("append while reading: %v", err)
	}
}

func digest(i int) [32]byte { return [32]byte{byte(i), 1} }

func TestTapeReplaysUntilTheRequestDiffers(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/run/journal", journal.Options{FS: disk})
	k := key(1)
	tape, err := journal.NewTape(j, k, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, ok := tape.Lookup(digest(i)); ok {
			t.Fatal("an answer from an empty tape")
		}
		if err := tape.Store(digest(i), []byte(fmt.Sprint("answer ", i))); err != nil {
			t.Fatal(err)
		}
	}
	disk = disk.Kill() // no sync, no close
	j = open(t, "/run/journal", journal.Options{FS: disk})
	tape, _ = journal.NewTape(j, k, 2, true)
	for i := range 2 {
		if b, ok := tape.Lookup(digest(i)); !ok || string(b) != fmt.Sprint("answer ", i) {
			t.Fatalf("answer %d: %q %v", i, b, ok)
		}
	}
	for i := 10; i < 13; i++ { // another history from here on
		if _, ok := tape.Lookup(digest(i)); ok {
			t.Fatal("another request got a stored answer")
		}
		if err := tape.Store(digest(i), []byte(fmt.Sprint("answer ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if tape.Replayed() != 2 || tape.Rebought() != 2 {
		t.Errorf("replayed %d, rebought %d", tape.Replayed(), tape.Rebought())
	}
	j = open(t, "/run/journal", journal.Options{FS: disk.Kill()})
	var got []string
	for turn, err := range j.Turns(k) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(turn.Attempt, " ", string(turn.Answer)))
	}
	if s := strings.Join(got, ", "); s != "1 answer 0, 1 answer 1, 2 answer 10, 2 answer 11, 2 answer 12" {
		t.Errorf("turns: %s", s)
	}
	mustAppend(t, j, record(1, 4, trajectory.Answered))
	for range j.Turns(k) {
		t.Error("a finished key has turns")
	}
}

func TestTornTailIsCutAndDamageIsNot(t *testing.T) {
	disk := journaltest.NewDisk()
	dir := "/run/journal"
	j := open(t, dir, journal.Options{FS: disk})
	var at []journal.Offset
	for i := range 5 {
		at = append(at, mustAppend(t, j, record(i, 6000, trajectory.Answered)))
	}
	name := filepath.Join(dir, "0000000000000000.log")

	torn := disk.Kill()
	if err := torn.Damage(name, int64(at[4])+30); err != nil {
		t.Fatal(err)
	}
	k := open(t, dir, journal.Options{FS: torn})
	if s := k.Stats(); s.Done != 4 || s.Torn == 0 || k.Done(key(4)) {
		t.Errorf("torn tail: %+v", s)
	}
	mustAppend(t, k, record(4, 10, trajectory.Answered))
	if err := k.Verify(t.Context()); err != nil {
		t.Error(err)
	}

	for _, place := range []int64{0, int64(at[2]) + 5, int64(at[2]) + 40, int64(at[3]) - 1} {
		bad := disk.Kill()
		if err := bad.Damage(name, place); err != nil {
			t.Fatal(err)
		}
		_, err := journal.Open(dir, journal.Options{FS: bad})
		var c *journal.CorruptError
		if !errors.As(err, &c) || c.At > place || c.File != name {
			t.Errorf("damage at %d: %v", place, err)
		}
	}

	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Damage(name, int64(at[4])+30); err != nil {
		t.Fatal(err)
	}
	var c *journal.CorruptError
	if _, err := journal.Open(dir, journal.Options{FS: disk}); !errors.As(err, &c) || c.Offset != at[4] {
		t.Errorf("damage to the last record of a closed journal: %v", err)
	}
}

func TestDamageInASealedSegment(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk, SegmentSize: 1500})
	for i := range 10 {
		mustAppend(t, j, record(i, 300, trajectory.Answered))
	}
	j.Close()
	name := "/j/0000000000000000.log"
	if err := disk.Damage(name, 900); err != nil {
		t.Fatal(err)
	}
	j = open(t, "/j", journal.Options{FS: disk, ReadOnly: true}) // footers only
	var c *journal.CorruptError
	if err := j.Verify(t.Context()); !errors.As(err, &c) || c.File != name {
		t.Errorf("verify: %v", err)
	}
	if err := disk.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open("/j", journal.Options{FS: disk}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a lost segment: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk})
	mustAppend(t, j, record(1, 100, trajectory.Answered))
	disk.Limit(50, syscall.ENOSPC)
	_, err := j.Append(t.Context(), record(2, 100, trajectory.Answered))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("full disk: %v", err)
	}
	if j.Done(key(2)) {
		t.Error("a record that was not written counts")
	}
	disk.Limit(-1, nil)
	mustAppend(t, j, record(2, 100, trajectory.Answered))
	j = open(t, "/j", journal.Options{FS: disk.Kill()})
	if s := j.Stats(); s.Done != 2 || s.Torn != 0 {
		t.Errorf("%+v", s)
	}
}

func TestBadDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(filepath.Join(file, "journal"), journal.Options{}); err == nil {
		t.Error("a journal below a file")
	}
	if _, err := journal.Open(filepath.Join(t.TempDir(), "none"), journal.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a missing journal: %v", err)
	}
	if _, err := journal.Open("/j", journal.Options{FS: readOnly{journaltest.NewDisk()}}); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("read-only directory: %v", err)
	}
}

type readOnly struct{ *journaltest.Disk }

func (readOnly) MkdirAll(dir string) error {
	return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EROFS}
}

func TestWritersShareSyncs(t *testing.T) {
	disk := &slowDisk{Disk: journaltest.NewDisk()}
	j := open(t, "/j", journal.Options{FS: disk})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { mustAppend(t, j, record(i, 50, trajectory.Answered)) })
	}
	wg.Wait()
	if n := disk.count(); n > 40 {
		t.Errorf("%d syncs for 64 writers", n)
	}
}

// slowDisk lets a sync of a file wait until the other writers had their turn.
type slowDisk struct {
	*journaltest.Disk
	mu    sync.Mutex
	syncs int
}

func (d *slowDisk) count() int { d.mu.Lock(); defer d.mu.Unlock(); return d.syncs }

func (d *slowDisk) Create(name string) (journal.File, error) {
	f, err := d.Disk.Create(name)
	return slowFile{f, d}, err
}

type slowFile struct {
	journal.File
	d *slowDisk
}

func (f slowFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	f.d.mu.Unlock()
	<-time.After(2 * time.Millisecond) // a real disk takes as long
	return f.File.Sync()
}

func TestConcurrentUse(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{SegmentSize: 20_000})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 20 {
				n := w*100 + i
				for turn := range r.IntN(3) {
					if err := j.Turn(key(n), 1, digest(turn), []byte("answer")); err != nil {
						t.Error(err)
					}
				}
				mustAppend(t, j, record(n, r.IntN(2000), trajectory.Answered))
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			for e, err := range j.Records(t.Context(), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := e.Record(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	if err := j.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if s := j.Stats(); s.Done != 160 {
		t.Errorf("%+v", s)
	}
	j.Close()
}

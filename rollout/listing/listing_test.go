package listing_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/trajectory"
)

var created = time.Unix(1_700_000_000, 0)

func record(i, attempt int, task, answer string) *trajectory.Record {
	tr := trajectory.New(trajectory.ModeText, nil)
	if _, err := tr.Commit(trajectory.Turn{Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, task)}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, answer)}, Finish: trajectory.FinishStop}); err != nil {
		panic(err)
	}
	return &trajectory.Record{
		Key:     trajectory.NewKey(fmt.Sprint("row", i), 0, 0, 0),
		Row:     fmt.Sprint("row", i),
		Attempt: attempt,
		Outcome: trajectory.Answered,
		Started: created,
		Seconds: 1.5,
		Model:   "m",
		Trace:   tr,
		Score:   &trajectory.Score{Reward: float64(i) / 7},
		ToolStats: map[string]trajectory.ToolCount{
			"terminal": {Count: 1},
			"file":     {Count: 1},
		},
	}
}

// event is what a log may hold.
type event struct {
	reopen bool
	row    listing.Row
	at     journal.Offset
	next   journal.Offset
}

func events(n int) (list []event) {
	r := rand.New(rand.NewPCG(1, 1))
	at := journal.Offset(0)
	for i := range n {
		e := event{at: at, next: at + journal.Offset(10+r.IntN(100)), reopen: i > 0 && r.IntN(5) == 0}
		rec := record(r.IntN(n/2), i, fmt.Sprint("Task ", i), strings.Repeat("ä", i))
		e.row = listing.Of(at, rec, []string{"accepted", "failed.sandbox", "retried"}[r.IntN(3)], "why")
		list, at = append(list, e), e.next
	}
	return list
}

func add(l *listing.List, e event) {
	if e.reopen {
		l.Reopen(e.row.Key, e.next)
		return
	}
	l.Add(e.row, e.next)
}

func appendEvent(b []byte, e event) []byte {
	if e.reopen {
		return listing.AppendReopen(b, e.row.Key, e.at, e.next)
	}
	return listing.AppendRow(b, e.row, e.next)
}

// same objects to lists that say different things.
func same(t *testing.T, got, want *listing.List) {
	t.Helper()
	if got.Next != want.Next || len(got.Rows) != len(want.Rows) {
		t.Fatalf("up to %d with %d rows, want %d with %d", got.Next, len(got.Rows), want.Next, len(want.Rows))
	}
	for i := range want.Rows {
		a, b := got.Rows[i], want.Rows[i]
		if math.IsNaN(a.Cost) && math.IsNaN(b.Cost) {
			a.Cost, b.Cost = 0, 0
		}
		if a != b || !reflect.DeepEqual(a.Texts(), b.Texts()) {
			t.Fatalf("row %d is %+v, want %+v", i, a, b)
		}
		x, okX := got.Last(a.Key)
		y, okY := want.Last(a.Key)
		if x != y || okX != okY {
			t.Fatalf("the last row of %v is %d, want %d", a.Key, x, y)
		}
		if !slices.Equal(got.Of(i), want.Of(i)) || !slices.Contains(got.Of(i), i) {
			t.Fatalf("samples of row %d: %v, want %v", i, got.Of(i), want.Of(i))
		}
	}
}

// However a file is cut, what is read of it and what the log holds behind it are the list.
func TestCutAnywhere(t *testing.T) {
	all := events(16)
	want := &listing.List{}
	file := listing.Header(listing.ByRun, created)
	for _, e := range all {
		add(want, e)
		file = appendEvent(file, e)
	}
	head := len(listing.Header(listing.ByRun, created))
	dir := t.TempDir()
	for cut := 0; cut <= len(file); cut++ {
		if err := os.WriteFile(filepath.Join(dir, listing.FileName), file[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		got, by, err := listing.Read(dir, created)
		if cut < head {
			if !errors.Is(err, listing.ErrOther) {
				t.Fatalf("%d bytes: %v", cut, err)
			}
			continue
		}
		if err != nil || by != listing.ByRun {
			t.Fatalf("%d bytes: %v, kept by %c", cut, err, by)
		}
		for _, e := range all {
			if e.at >= got.Next {
				add(got, e)
			}
		}
		same(t, got, want)
	}
}

// A reader's file is taken whole or not at all.
func TestReadersFile(t *testing.T) {
	want := &listing.List{}
	for _, e := range events(16) {
		add(want, e)
	}
	dir := t.TempDir()
	if err := listing.Write(dir, created, want); err != nil {
		t.Fatal(err)
	}
	got, by, err := listing.Read(dir, created)
	if err != nil || by != listing.ByReader {
		t.Fatalf("%v, kept by %c", err, by)
	}
	same(t, got, want)
	name := filepath.Join(dir, listing.FileName)
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range file {
		if err := os.WriteFile(name, file[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := listing.Read(dir, created); !errors.Is(err, listing.ErrOther) {
			t.Fatalf("%d of %d bytes: %v", cut, len(file), err)
		}
	}
	if _, _, err := listing.Read(dir, created.Add(time.Hour)); !errors.Is(err, listing.ErrOther) {
		t.Errorf("the list of another run: %v", err)
	}
}

// A row stays small whatever the record holds, and of its texts there are only beginnings.
func TestRowsAreBounded(t *testing.T) {
	r := record(1, 1, strings.Repeat("long\x00 ", 1e5), strings.Repeat("日", 1e5))
	r.Row, r.Model = strings.Repeat("i", 1e5), strings.Repeat("m", 1e5)
	for i := range 1000 {
		r.ToolStats[fmt.Sprint("tool", i)] = trajectory.ToolCount{Count: 1}
	}
	w := listing.Of(0, r, "accepted", strings.Repeat("why ", 1e5))
	if n := len(listing.AppendRow(nil, w, 1)); n > 1200 {
		t.Errorf("a row takes %d bytes", n)
	}
	x := w.Texts()
	if !strings.HasPrefix(x.Task, "long\uFFFD long") || len(x.Task) > 160 || !strings.HasPrefix(x.Answer, "日日") ||
		strings.ContainsRune(x.Answer, '\uFFFD') || !slices.Contains(x.Tools, "tool1") {
		t.Errorf("%+v", x)
	}
}

func TestMentions(t *testing.T) {
	w := listing.Of(0, record(3, 1, "Find the Árbol", "Done: THE tree. aaab"), "rejected.truncated", "")
	for word, want := range map[string]bool{
		"":              true,
		"row3":          true,
		"find the":      true,
		"árbol":         true,
		"the tree":      true,
		"aab":           true,
		"truncated":     true,
		"answered":      true,
		"file terminal": true,
		"row33":         false,
		"done: a":       false,
		"x":             false,
	} {
		if got := w.Mentions(word); got != want {
			t.Errorf("%q: %t", word, got)
		}
	}
	plain := listing.Of(0, record(3, 1, "Plain WORDS here", "ok"), "accepted", "")
	if !plain.Mentions("words") || plain.Mentions("wordsx") || !plain.Mentions("plain w") || plain.Mentions("zebra") {
		t.Error("words of plain ASCII")
	}
	if !w.Called("terminal") || w.Called("term") {
		t.Error("tools")
	}
}

func FuzzRead(f *testing.F) {
	file := listing.Header(listing.ByRun, created)
	for _, e := range events(3) {
		file = appendEvent(file, e)
	}
	f.Add(file)
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, listing.FileName), b, 0o644); err != nil {
			t.Fatal(err)
		}
		l, _, err := listing.Read(dir, created)
		if err != nil {
			return
		}
		for i := range l.Rows { // whatever was taken can be shown
			if x := l.Rows[i].Texts(); len(x.ID) > len(b) || !slices.Contains(l.Of(i), i) {
				t.Fatalf("%+v", x)
			}
		}
	})
}

// BenchmarkTasks puts a million rows together by task, two samples each.
func BenchmarkTasks(b *testing.B) {
	const rows = 1_000_000
	l := &listing.List{}
	for i := range rows {
		w := listing.Of(journal.Offset(i), record(i/2, 1, "Find the number of the row", "It is the row"), "accepted", "")
		w.Key = trajectory.NewKey(fmt.Sprint("row", i/2), 0, 0, i%2)
		l.Add(w, journal.Offset(i+1))
	}
	b.Run("tasks", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n := len(l.Tasks(func(*listing.Row) bool { return true })); n != rows/2 {
				b.Fatal(n)
			}
		}
	})
	b.Run("count", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n := l.CountTasks(); n != rows/2 {
				b.Fatal(n)
			}
		}
	})
}

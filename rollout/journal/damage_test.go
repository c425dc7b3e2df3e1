package journal_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/trajectory"
)

// frames are the frames of a log's files, as bytes.
type frames struct {
	files map[string][]byte
	all   []written
}

type written struct {
	file  string
	bytes []byte
	kind  byte
	key   trajectory.Key
}

// cutFrames takes undamaged files apart by the lengths in their frames.
func cutFrames(t testing.TB, fsys journal.FS, dir string) frames {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	fr := frames{files: map[string][]byte{}}
	for _, n := range names {
		name := filepath.Join(dir, n)
		b, err := journal.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		fr.files[name] = b
		for len(b) >= 10 && string(b[:4]) == "HJR1" {
			head := int(binary.LittleEndian.Uint16(b[4:]))
			n := 10 + head + 4 + int(binary.LittleEndian.Uint32(b[6:])) + 4
			fr.all = append(fr.all, written{name, b[:n], b[11], trajectory.Key(b[13:29])})
			b = b[n:]
		}
	}
	return fr
}

// disk writes the files into a fresh disk.
func (fr frames) disk(t testing.TB, files map[string][]byte) *journaltest.Disk {
	t.Helper()
	d := journaltest.NewDisk()
	for name, b := range files {
		if err := d.MkdirAll(filepath.Dir(name)); err != nil {
			t.Fatal(err)
		}
		f, err := d.Create(name)
		if err == nil {
			_, err = f.WriteAt(b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// someLog writes a log of several segments with all kinds of frames; the payloads are
// small and large, and some hold what looks like a frame.
func someLog(t testing.TB, dir string, fsys journal.FS, r *rand.Rand, n int, orderly bool) {
	t.Helper()
	j := open(t, dir, journal.Options{FS: fsys, SegmentSize: int64(4000 + r.IntN(30000))})
	var last []byte
	for i := range n {
		i += 8 // those of testdata/version1 come before
		for turn := range r.IntN(3) {
			answer := []byte(strings.Repeat("answer ", r.IntN(300)))
			if r.IntN(3) == 0 {
				answer = append(answer, last...) // a frame of another log
			}
			if err := j.Turn(key(i), 1, digest(turn), answer); err != nil {
				t.Fatal(err)
			}
		}
		o := []trajectory.Outcome{trajectory.Answered, trajectory.Sandbox}[min(1, r.IntN(5)/4)]
		rec := record(i, 0, o)
		noise := make([]byte, r.IntN(6000))
		for k := range noise {
			noise[k] = byte('a' + r.IntN(16))
		}
		rec.Reason = string(noise)
		if r.IntN(4) == 0 {
			if _, err := j.AppendAttempt(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, j, rec)
		if o.Failure() && r.IntN(2) == 0 {
			if err := j.Reopen(t.Context(), []trajectory.Key{key(i)}); err != nil {
				t.Fatal(err)
			}
			if r.IntN(2) == 0 {
				mustAppend(t, j, record(i, 100, trajectory.Answered))
			}
		}
		if i == 8 {
			last = foreignFrame(t, 1000+i)
		}
	}
	if orderly {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// foreignFrame is a whole final record as another log would hold it.
func foreignFrame(t testing.TB, i int) []byte {
	disk := journaltest.NewDisk()
	j := open(t, "/other", journal.Options{FS: disk})
	mustAppend(t, j, record(i, 50, trajectory.Answered))
	return cutFrames(t, disk, "/other").all[0].bytes
}

// damage changes one of the files at one place, or its pages.
func damage(b []byte, r *rand.Rand) (string, []byte) {
	b = bytes.Clone(b)
	const page = 4096
	pages := max(1, len(b)/page)
	at := r.IntN(len(b))
	p, q := page*r.IntN(pages), page*r.IntN(pages)
	end := func(p int) int { return min(len(b), p+page) }
	switch r.IntN(8) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		return fmt.Sprint("a bit at ", at), b
	case 1:
		n := min(len(b)-at, 1+r.IntN(200))
		return fmt.Sprint(n, " bytes cut at ", at), slices.Delete(b, at, at+n)
	case 2:
		return fmt.Sprint("page doubled in at ", p), slices.Insert(b, end(p), bytes.Clone(b[p:end(p)])...)
	case 3:
		copy(b[q:end(q)], bytes.Clone(b[p:end(p)]))
		return fmt.Sprint("page ", p, " over ", q), b
	case 4:
		x, y := bytes.Clone(b[p:end(p)]), bytes.Clone(b[q:end(q)])
		if len(x) == len(y) {
			copy(b[p:], y)
			copy(b[q:], x)
		}
		return fmt.Sprint("pages ", p, " and ", q, " swapped"), b
	case 5:
		clear(b[p:end(p)])
		return fmt.Sprint("page zeroed at ", p), b
	case 6:
		return fmt.Sprint("cut off at ", at), b[:at]
	default:
		for range 1 + r.IntN(30) {
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		}
		return "bytes everywhere", b
	}
}

func TestDamages(t *testing.T) { damages(t, 200) }

func TestLongDamages(t *testing.T) {
	if !*long {
		t.Skip("a long test: -long runs it")
	}
	damages(t, 10_000)
}

// damages is the law: after any damage and a repair every frame whose bytes are still there
// is read, nothing else is, and the log is in order.
func damages(t *testing.T, n int) {
	var fr frames
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		if i%20 == 0 {
			disk := journaltest.NewDisk()
			if i%60 == 20 { // a log that an older version began
				disk = fr.disk(t, realFiles(t, "testdata/version1"))
			}
			if i%120 != 80 { // no newer one went on with that one
				someLog(t, "/j", disk, r, 5+r.IntN(25), i%40 == 0)
			}
			fr = cutFrames(t, disk, "/j")
		}
		files := map[string][]byte{}
		for name, b := range fr.files {
			files[name] = b
		}
		names := slices.Sorted(mapsKeys(files))
		what := ""
		for range 1 + r.IntN(2) {
			name := names[r.IntN(len(names))]
			if len(files[name]) == 0 {
				continue
			}
			var how string
			how, files[name] = damage(files[name], r)
			what += filepath.Base(name) + ": " + how + "; "
		}
		repaired(t, fmt.Sprintf("damage %d (%s)", i, what), fr, files)
		if t.Failed() {
			return
		}
	}
}

func mapsKeys(m map[string][]byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// realFiles reads a folder of this package, under the names of a log in /j.
func realFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	names, err := journal.OS{}.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, n := range names {
		files["/j/"+n], err = journal.ReadFile(journal.OS{}, filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// repaired repairs damaged files and compares what is left with what must be.
func repaired(t *testing.T, what string, fr frames, files map[string][]byte) {
	t.Helper()
	disk := fr.disk(t, files)
	aside := contentsOf(t, disk, journal.Options{FS: disk, ReadOnly: true, Salvage: true})
	rep, err := journal.Repair(t.Context(), "/j", journal.Options{FS: disk})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, l := range rep.Lost {
		if l.File == "" || l.To <= l.From || l.At < 0 {
			t.Errorf("%s: loss %+v", what, l)
		}
	}
	want, lost := map[string]bool{}, 0
	for _, w := range fr.all {
		if w.kind < 2 || w.kind > 3 {
			continue
		}
		if bytes.Contains(files[w.file], w.bytes) {
			want[string(w.bytes[:60])] = true
		} else {
			lost++
		}
	}
	j := open(t, "/j", journal.Options{FS: disk})
	if err := j.Verify(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	got := contentsOf(t, disk, journal.Options{FS: disk, ReadOnly: true})
	if len(got) != len(want) {
		t.Errorf("%s: %d records after the repair, %d are whole of %d", what, len(got), len(want), len(want)+lost)
	}
	if slices.Sort(got); !slices.Equal(got, aside) {
		t.Errorf("%s: salvage reads %d records, repair leaves %d", what, len(aside), len(got))
	}
	again, err := journal.Repair(t.Context(), "/j", journal.Options{FS: disk})
	if err != nil || len(again.Files) > 0 {
		t.Errorf("%s: a second repair changed %v, %v", what, again.Files, err)
	}
	goOn(t, what, j, fr)
}

// contentsOf names the records of a log, sorted.
func contentsOf(t testing.TB, disk journal.FS, o journal.Options) (list []string) {
	t.Helper()
	j := open(t, "/j", o)
	defer j.Close()
	for e, err := range j.Records(t.Context(), 0) {
		if err != nil {
			t.Error(err)
			return
		}
		if e.Kind == journal.KindFinal || e.Kind == journal.KindAttempt {
			r, err := e.Record()
			if err != nil || r.Key != e.Key {
				t.Errorf("record at %d: %v", e.At, err)
			}
			list = append(list, fmt.Sprint(e.Kind, e.Key, e.Outcome, len(r.Reason), r.Reason[:min(8, len(r.Reason))]))
		}
	}
	slices.Sort(list)
	return list
}

// goOn finishes every key of a repaired log: those that are not done take a record.
func goOn(t *testing.T, what string, j *journal.Journal, fr frames) {
	t.Helper()
	for i := range 40 {
		_, err := j.Append(t.Context(), record(i, 10, trajectory.Answered))
		if done := err != nil; done && !strings.Contains(err.Error(), journal.ErrDone.Error()) {
			t.Errorf("%s: %v", what, err)
		}
		if !j.Done(key(i)) {
			t.Errorf("%s: key %d is not done", what, i)
		}
	}
	if err := j.Verify(t.Context()); err != nil {
		t.Errorf("%s, gone on: %v", what, err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Every byte of a log is covered: a changed one is an error, or a torn end that is reported,
// and costs one record at most.
func TestEveryByteCounts(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk, SegmentSize: 700})
	for i := range 2 {
		if err := j.Turn(key(i), 1, digest(1), []byte("answer")); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, j, record(i, 2, trajectory.Answered))
	}
	for _, orderly := range []bool{false, true} {
		if orderly {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		fr := cutFrames(t, disk, "/j")
		all := contentsOf(t, disk, journal.Options{FS: disk, ReadOnly: true})
		for name, b := range fr.files {
			for at := range b {
				files := map[string][]byte{}
				for n, b := range fr.files {
					files[n] = bytes.Clone(b)
				}
				files[name][at] ^= 1 << (at % 8)
				flipped(t, fmt.Sprintf("%s, byte %d, closed %v", name, at, orderly), fr.disk(t, files), all)
				if t.Failed() {
					return
				}
			}
		}
	}
}

func flipped(t *testing.T, what string, disk *journaltest.Disk, all []string) {
	t.Helper()
	j, err := journal.Open("/j", journal.Options{FS: disk, ReadOnly: true})
	if err == nil {
		err = j.Verify(t.Context())
	}
	if err == nil && j.Stats().Torn == 0 {
		t.Errorf("%s: it is not seen", what)
	}
	rep, err := journal.Repair(t.Context(), "/j", journal.Options{FS: disk})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if left := contentsOf(t, disk, journal.Options{FS: disk, ReadOnly: true}); len(left) < len(all)-1 {
		t.Errorf("%s: %d of %d records are left; %+v", what, len(left), len(all), rep)
	}
}

// What a model writes may look like a frame of this very log, at the place of the frame that
// holds it, but for the log's number.
func TestForgedFrames(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk})
	mustAppend(t, j, record(1, 50, trajectory.Answered))
	other := journaltest.NewDisk()
	theirs := open(t, "/j", journal.Options{FS: other})
	var forged []byte
	mustAppend(t, theirs, record(1, 50, trajectory.Answered))
	for i := range 20 {
		mustAppend(t, theirs, record(100+i, 50, trajectory.Answered))
	}
	for _, w := range cutFrames(t, other, "/j").all[1:] {
		forged = append(forged, w.bytes...)
	}
	noise := make([]byte, 40*len(forged)) // so that nothing is compressed
	rand.NewChaCha8([32]byte{1}).Read(noise)
	if err := j.Turn(key(2), 1, digest(1), append(forged, noise...)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, record(3, 50, trajectory.Answered))
	fr := cutFrames(t, disk, "/j")
	if !bytes.Contains(fr.all[1].bytes, forged) {
		t.Fatal("the forged frames are not in the file as they are")
	}
	for _, at := range []int{len(fr.all[0].bytes) + 3, len(fr.all[0].bytes) + 90, len(fr.all[0].bytes) + len(fr.all[1].bytes) - 2} {
		files := map[string][]byte{}
		for n, b := range fr.files {
			files[n] = bytes.Clone(b)
			files[n][at] ^= 4
		}
		broken := fr.disk(t, files)
		rep, err := journal.Repair(t.Context(), "/j", journal.Options{FS: broken})
		if err != nil || len(rep.Lost) != 1 {
			t.Errorf("damage at %d: %+v, %v", at, rep, err)
		}
		if got := contentsOf(t, broken, journal.Options{FS: broken, ReadOnly: true}); len(got) != 2 {
			t.Errorf("damage at %d: %v", at, got)
		}
	}
}

// A log of version 1 is read, gone on with, and verified.
func TestReadsVersion1(t *testing.T) {
	disk := frames{}.disk(t, realFiles(t, "testdata/version1"))
	for range 2 {
		j := open(t, "/j", journal.Options{FS: disk})
		if err := j.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := j.Stats(); s.Finals < 8 || s.Turns != 8 || s.Reopens != 1 || j.Done(key(3)) != (s.Finals > 8) {
			t.Fatalf("%+v", s)
		}
		if !j.Done(key(3)) {
			mustAppend(t, j, record(3, 100, trajectory.Answered))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Missing files cost what was in them.
func TestMissingSegments(t *testing.T) {
	disk := journaltest.NewDisk()
	someLog(t, "/j", disk, rand.New(rand.NewPCG(1, 2)), 30, true)
	fr := cutFrames(t, disk, "/j")
	if len(fr.files) < 4 {
		t.Fatalf("%d files", len(fr.files))
	}
	for gone := range fr.files {
		files := map[string][]byte{}
		for n, b := range fr.files {
			if n != gone {
				files[n] = b
			}
		}
		repaired(t, gone+" is missing", fr, files)
	}
}

package journal_test

import (
	"bytes"
	"slices"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/trajectory"
)

// three writes a log of three records, so that two such logs differ in their number alone.
func three(t *testing.T) (file string, frames [][]byte, fr frames) {
	t.Helper()
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk})
	for i := range 3 {
		mustAppend(t, j, record(i, 50, trajectory.Answered))
	}
	fr = cutFrames(t, disk, "/j")
	for _, w := range fr.all {
		file, frames = w.file, append(frames, w.bytes)
	}
	return file, frames, fr
}

// Whole frames in another place, or of another log, are damage though all their checksums hold.
func TestWholeFramesElsewhere(t *testing.T) {
	file, ours, fr := three(t)
	_, theirs, _ := three(t)
	if len(ours[1]) != len(theirs[1]) || len(ours[1]) != len(ours[2]) {
		t.Fatal("the frames are not equally long")
	}
	for name, list := range map[string][][]byte{
		"left out":       {ours[0], ours[2]},
		"swapped":        {ours[0], ours[2], ours[1]},
		"doubled":        {ours[0], ours[1], ours[1], ours[2]},
		"of another log": {ours[0], theirs[1], ours[2]},
	} {
		disk := fr.disk(t, map[string][]byte{file: slices.Concat(list...)})
		j, err := journal.Open("/j", journal.Options{FS: disk, ReadOnly: true})
		if err == nil {
			err = j.Verify(t.Context())
		}
		if err == nil && j.Stats().Torn == 0 {
			t.Errorf("%s: it is not seen", name)
		}
	}
}

// A power cut that loses one frame, of several that were not yet synced, keeps those behind it.
func TestFramesBehindALostOne(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk})
	for i := range 3 {
		if err := j.Put(t.Context(), journal.KindFinal, record(i, 50, trajectory.Answered)); err != nil {
			t.Fatal(err)
		}
	}
	fr := cutFrames(t, disk, "/j")
	files := map[string][]byte{}
	for name, b := range fr.files {
		files[name] = bytes.Clone(b)
		clear(files[name][len(fr.all[0].bytes):][:len(fr.all[1].bytes)])
	}
	cut := fr.disk(t, files)
	j = open(t, "/j", journal.Options{FS: cut})
	if got := []bool{j.Done(key(0)), j.Done(key(1)), j.Done(key(2))}; !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("done: %v", got)
	}
	mustAppend(t, j, record(1, 50, trajectory.Answered))
	if err := j.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A failure that was taken back is not in force again when damage took what came after it.
func TestLostReopen(t *testing.T) {
	disk := journaltest.NewDisk()
	j := open(t, "/j", journal.Options{FS: disk})
	mustAppend(t, j, record(1, 50, trajectory.Sandbox))
	if err := j.Reopen(t.Context(), []trajectory.Key{key(1)}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, record(1, 60, trajectory.Answered))
	mustAppend(t, j, record(2, 50, trajectory.Answered))
	fr := cutFrames(t, disk, "/j")
	at := len(fr.all[0].bytes)
	for name, lost := range map[string][]int{"the answer": {2}, "both": {1, 2}} {
		files := map[string][]byte{}
		for n, b := range fr.files {
			files[n] = bytes.Clone(b)
			for _, i := range lost {
				files[n][at+(i-1)*len(fr.all[1].bytes)+len(fr.all[i].bytes)-1] ^= 1
			}
		}
		broken := fr.disk(t, files)
		if _, err := journal.Repair(t.Context(), "/j", journal.Options{FS: broken}); err != nil {
			t.Fatal(err)
		}
		if j := open(t, "/j", journal.Options{FS: broken}); j.Done(key(1)) || !j.Done(key(2)) {
			t.Errorf("%s lost: done are %v and %v", name, j.Done(key(1)), j.Done(key(2)))
		}
	}
}

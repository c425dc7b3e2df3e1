package runs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/rollout/artifact"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// make makes a run of the samples [from, to); every fifth one fails where failing is set.
func makeRun(t *testing.T, dir, shard string, from, to int, failing bool) {
	t.Helper()
	m := rundir.Manifest{Version: "1", Identity: rundir.Fields{{Name: "model", Value: "m"}}, Extent: rundir.Extent{Planned: 10, Shard: shard},
		Books: rundir.Books{Mode: "batch"}, Tools: []string{"terminal"}}
	d, err := rundir.Open(t.Context(), dir, m, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := sink.New(d.Journal, dir, d.Manifest, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Follow(t.Context())
	for i := from; i < to; i++ {
		tr := trajectory.New(trajectory.ModeText, nil)
		tr.Finish([]trajectory.Message{trajectory.Text(trajectory.User, fmt.Sprint("task ", i)), trajectory.Text(trajectory.Assistant, "done")})
		r := &trajectory.Record{Key: trajectory.NewKey(fmt.Sprint(i), 0, 0, 0), Row: fmt.Sprint("row", i), Attempt: 1,
			Outcome: trajectory.Answered, Score: &trajectory.Score{Reward: 1}, Started: time.Unix(int64(i), 0).UTC(), Trace: tr}
		if failing && i%5 == 0 {
			r.Outcome = trajectory.Sandbox
			r.Score = nil
			r.Reason = "box lost"
		}
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func show(t *testing.T, w io.Writer, dir, what string) error {
	r, err := runs.Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Show(t.Context(), w, what, false)
}

func export(t *testing.T, dir, out string) error {
	r, err := runs.Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Export(t.Context(), out, nil, false)
	return err
}

func TestVerifyAndShow(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a")
	makeRun(t, dir, "", 0, 8, true)
	v, err := runs.Verify(t.Context(), dir)
	if err != nil || v.Records != 8 || v.Stale || v.Statistics.Pending != 2 || v.Statistics.Failed["sandbox"] != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	list, err := runs.List(parent)
	if err != nil || len(list) != 1 || list[0].Done != 8 || list[0].Failed != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	var b bytes.Buffer
	if err := errors.Join(runs.WriteList(&b, list, false), show(t, &b, dir, ""), show(t, &b, dir, "row3"),
		runs.Tail(t.Context(), &b, dir, 2, false, 0, true)); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"model: m", "planned 10, accepted 6", "task 3", `"id":"row6"`, `"id":"row7"`} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("%q is missing in\n%s", w, &b)
		}
	}
	if strings.Contains(b.String(), `"id":"row5"`) {
		t.Error("tail showed more than two")
	}
	if err := show(t, &b, dir, "row99"); err == nil || !strings.Contains(err.Error(), "row99") {
		t.Errorf("%v", err)
	}
	log := filepath.Join(dir, "journal", "0000000000000000.log")
	data, _ := os.ReadFile(log)
	data[len(data)/2] ^= 1
	if err := os.WriteFile(log, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.Verify(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "damaged at byte") {
		t.Errorf("damage: %v", err)
	}
}

func TestExportGivesTheSameBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	makeRun(t, dir, "", 0, 10, true)
	out := filepath.Join(filepath.Dir(dir), "b", "a")
	if err := export(t, dir, out); err != nil {
		t.Fatal(err)
	}
	names := []string{"trajectories.jsonl", "messages.jsonl", "failed_trajectories.jsonl", "statistics.json", "report.md"}
	before := map[string][]byte{}
	for _, n := range names {
		a, err := os.ReadFile(filepath.Join(dir, n))
		b, err2 := os.ReadFile(filepath.Join(out, n))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v %v", n, err, err2)
		}
		before[n] = a
		os.Remove(filepath.Join(dir, n))
	}
	if err := export(t, dir, ""); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if a, _ := os.ReadFile(filepath.Join(dir, n)); !bytes.Equal(a, before[n]) {
			t.Errorf("%s differs when it is made again", n)
		}
	}
}

func TestMerge(t *testing.T) {
	parent := t.TempDir()
	a := filepath.Join(parent, "a")
	b := filepath.Join(parent, "b")
	out := filepath.Join(parent, "out")
	makeRun(t, a, "0/2", 0, 10, true)
	makeRun(t, b, "1/2", 5, 15, false) // overlaps: 5 failed in a and is good here
	s, err := runs.Merge(t.Context(), out, []string{a, b})
	if err != nil || s.Planned != 20 || s.Accepted != 14 || s.Failed["sandbox"] != 1 || s.Pending != 5 {
		t.Fatalf("%+v, %v", s, err)
	}
	if v, err := runs.Verify(t.Context(), out); err != nil || v.Stale {
		t.Errorf("%+v, %v", v, err)
	}
	if again, err := runs.Merge(t.Context(), out, []string{a, b}); err != nil || again.Accepted != 14 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

// TestMergeShards: what shards come to, in one merge or in several, whatever their order.
func TestMergeShards(t *testing.T) {
	parent := t.TempDir()
	in := func(name string) string { return filepath.Join(parent, name) }
	makeRun(t, in("a"), "0/3", 0, 10, true)
	makeRun(t, in("b"), "1/3", 10, 18, false)
	makeRun(t, in("c"), "2/3", 20, 30, false)
	makeRun(t, in("half"), "0/2", 0, 5, false)
	merge := func(out string, from ...string) string {
		t.Helper()
		var dirs []string
		for _, f := range from {
			dirs = append(dirs, in(f))
		}
		s, err := runs.Merge(t.Context(), in(out), dirs)
		if err != nil {
			return err.Error()
		}
		m, err := rundir.Read(journal.OS{}, in(out))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%q %d = %d + %d", m.Extent.Shard, s.Planned, s.Accepted+s.Failed["sandbox"], s.Pending)
	}
	for _, tt := range []struct {
		out  string
		from []string
		want string
	}{
		{"ab", []string{"a", "b"}, `"0/3+1/3" 20 = 18 + 2`},
		{"abc", []string{"c", "ab"}, `"" 30 = 28 + 2`},
		{"abc2", []string{"ab", "b", "c"}, `"" 30 = 28 + 2`},
		{"whole", []string{"half", "a", "b", "c"}, `"" 30 = 28 + 2`},
		{"grows", []string{"a"}, `"0/3" 10 = 10 + 0`},
		{"grows", []string{"a", "c"}, `"0/3+2/3" 20 = 20 + 0`},
	} {
		if got := merge(tt.out, tt.from...); got != tt.want {
			t.Errorf("%v gives %s, want %s", tt.from, got, tt.want)
		}
	}
	if got := merge("grows", "b"); !strings.Contains(got, "shard is") {
		t.Errorf("a run lost a shard: %s", got)
	}
}

// TestMergeKeepsAnswers: of an unfinished sample the merged run holds what was bought for it,
// and what its attempts cost. Artifacts follow the record in force.
func TestMergeKeepsAnswers(t *testing.T) {
	parent := t.TempDir()
	a := filepath.Join(parent, "a")
	b := filepath.Join(parent, "b")
	out := filepath.Join(parent, "out")
	k := trajectory.NewKey("7", 0, 0, 0)
	for dir, n := range map[string]int{a: 2, b: 3} {
		makeRun(t, dir, map[string]string{a: "0/2", b: "1/2"}[dir], 0, 6, dir == a)
		j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if dir == a {
			r := &trajectory.Record{Key: k, Row: "row7", Attempt: 1, Outcome: trajectory.Provider, Cause: "unavailable", Usage: trajectory.Usage{Prompt: 70}}
			if _, err := j.AppendAttempt(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		tape, err := j.Tape(k, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := tape.Store([32]byte{byte(i)}, []byte(filepath.Base(dir))); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		art := artifact.Dir(filepath.Join(dir, "artifacts"), "row5", 0)
		if err := errors.Join(os.MkdirAll(art, 0o755), os.WriteFile(filepath.Join(art, "from"), []byte(filepath.Base(dir)), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		s, err := runs.Merge(t.Context(), out, []string{a, b})
		if err != nil || s.Attempts != 7 || s.Tokens.Prompt != 70 || s.Accepted != 6 {
			t.Fatalf("%+v, %v", s, err)
		}
		j, err := journal.Open(filepath.Join(out, "journal"), journal.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for turn, err := range j.Turns(k) {
			if err != nil || turn.Digest != [32]byte{byte(n)} || string(turn.Answer) != "b" {
				t.Errorf("answer %d: %+v, %v", n, turn, err)
			}
			n++
		}
		if n != 3 || j.Attempts(k) != 1 {
			t.Errorf("%d answers, %d attempts; want 3 and 1", n, j.Attempts(k))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		// Sample 5 failed in a and passed in b.
		if from, err := os.ReadFile(filepath.Join(artifact.Dir(filepath.Join(out, "artifacts"), "row5", 0), "from")); string(from) != "b" {
			t.Errorf("the artifacts of row5 are from %q (%v)", from, err)
		}
	}
}

func TestTailFollows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	makeRun(t, dir, "", 0, 2, false)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := &until{want: "row4", found: cancel, begun: make(chan struct{})}
	done := make(chan error)
	go func() { done <- runs.Tail(ctx, w, dir, 1, true, time.Millisecond, true) }()
	select {
	case <-w.begun: // it has the last record of before
	case <-ctx.Done():
	}
	makeRun(t, dir, "", 2, 5, false)
	if err := <-done; err != nil || strings.Count(w.String(), "\n") != 4 {
		t.Errorf("%v\n%s", err, w)
	}
}

// until calls found when a text was written.
type until struct {
	bytes.Buffer
	want  string
	found func()

	begun chan struct{} // closed with the first text
	once  sync.Once
}

func (u *until) Write(b []byte) (int, error) {
	n, err := u.Buffer.Write(b)
	u.once.Do(func() { close(u.begun) })
	if strings.Contains(u.String(), u.want) {
		u.found()
	}
	return n, err
}

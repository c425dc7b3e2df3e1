package runs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// finish does what is pending in a run and returns how many samples that were.
func finish(t *testing.T, dir string) (n int) {
	t.Helper()
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := rundir.Open(t.Context(), dir, m, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		r := sample(i)
		if d.Journal.Done(r.Key) {
			continue
		}
		n++
		if _, err := d.Journal.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	p, err := sink.New(d.Journal, dir, d.Manifest, sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func sample(i int) *trajectory.Record {
	tr := trajectory.New(trajectory.ModeText, nil)
	tr.Finish([]trajectory.Message{trajectory.Text(trajectory.User, fmt.Sprint("task ", i)), trajectory.Text(trajectory.Assistant, "done")})
	return &trajectory.Record{Key: trajectory.NewKey(fmt.Sprint(i), 0, 0, 0), Row: fmt.Sprint("row", i), Attempt: 1,
		Outcome: trajectory.Answered, Score: &trajectory.Score{Reward: 1}, Started: time.Unix(int64(i), 0).UTC(), Trace: tr}
}

// After any damage and a repair the books balance, the run is in order, and it goes on.
func TestRepairedRunsBalance(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	makeRun(t, whole, "", 0, 10, true)
	name := filepath.Join("journal", "0000000000000000.log")
	log, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		at := r.IntN(len(log))
		bad := append([]byte(nil), log...)
		switch i % 3 {
		case 0:
			bad[at] ^= 1 << r.IntN(8)
		case 1:
			bad = append(bad[:at], bad[min(len(bad), at+1+r.IntN(900)):]...)
		case 2:
			clear(bad[at:min(len(bad), at+512)])
		}
		if err := os.WriteFile(filepath.Join(dir, name), bad, 0o644); err != nil {
			t.Fatal(err)
		}
		rep, err := runs.Repair(t.Context(), dir)
		if err != nil {
			t.Fatalf("damage %d at %d: %v", i, at, err)
		}
		v, err := runs.Verify(t.Context(), dir)
		if err != nil {
			t.Errorf("damage %d at %d: %v", i, at, err)
		}
		pending := int64(0)
		for _, l := range rep.Lost {
			if l.Pending {
				pending++
				if l.ID == "" {
					t.Errorf("damage %d at %d: no row is named: %+v", i, at, l)
				}
			}
		}
		if v.Statistics.Pending != pending || i%3 == 0 && pending > 1 {
			t.Errorf("damage %d at %d: %d pending, %d are named: %v", i, at, v.Statistics.Pending, pending, rep.Lost)
		}
		if n := finish(t, dir); int64(n) != pending {
			t.Errorf("damage %d at %d: %d samples were done again, %d were lost", i, at, n, pending)
		}
		v, err = runs.Verify(t.Context(), dir)
		if err != nil || v.Statistics.Pending != 0 {
			t.Errorf("damage %d at %d, gone on: %d pending, %v", i, at, v.Statistics.Pending, err)
		}
	}
}

// Projections that were changed are named, and an export mends them.
func TestVerifyComparesProjections(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	makeRun(t, whole, "", 0, 10, true)
	for _, file := range []string{"statistics.json", "trajectories.jsonl", "messages.jsonl", "failed_trajectories.jsonl", "report.md", "view.index"} {
		text, err := os.ReadFile(filepath.Join(whole, file))
		if err != nil {
			t.Fatal(err)
		}
		last := strings.TrimSuffix(string(text), "\n")
		for how, bad := range map[string]string{
			"changed":       strings.Replace(string(text), "1", "2", 1),
			"longer":        string(text) + "{}\n",
			"shorter":       last[:strings.LastIndex(last, "\n")+1],
			"another order": last[strings.LastIndex(last, "\n")+1:] + "\n" + last[:strings.LastIndex(last, "\n")+1],
		} {
			dir := filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if file == "view.index" && how != "longer" {
				continue // it is not text
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(bad), 0o644); err != nil {
				t.Fatal(err)
			}
			if v, err := runs.Verify(t.Context(), dir); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s %s: %v, %+v", file, how, err, v.Differences)
			}
			if err := export(t, dir, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := runs.Verify(t.Context(), dir); err != nil {
				t.Errorf("%s %s, exported: %v", file, how, err)
			}
		}
	}
}

// A killed process leaves projections behind that lag, and no lie.
func TestVerifyOfAKilledRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	makeRun(t, dir, "", 0, 5, true)
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := rundir.Open(t.Context(), dir, m, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Journal.Append(t.Context(), sample(7)); err != nil {
		t.Fatal(err)
	}
	v, err := runs.Verify(t.Context(), dir) // the journal is open still
	if err != nil || !v.Stale || v.Records != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	name := filepath.Join(dir, "statistics.json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lie := strings.Replace(string(text), `"accepted": 4`, `"accepted": 3`, 1)
	if lie == string(text) {
		t.Fatalf("%s", text)
	}
	if err := os.WriteFile(name, []byte(lie), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.Verify(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "statistics.json") {
		t.Errorf("statistics that were never true: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

package rundir_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

func manifest() rundir.Manifest {
	return rundir.Manifest{
		Version:  "1.0",
		Identity: rundir.Fields{{Name: "model", Value: "m"}, {Name: "temperature", Value: "1"}, {Name: "a: odd", Value: "x\ny: é"}},
		Extent:   rundir.Extent{Dataset: "aa", Rollouts: 2, Planned: 10},
		Books:    rundir.Books{Mode: "batch", Accept: "all"}, Tools: []string{"terminal"},
	}
}

func TestResumeAndMismatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "a")
	d, err := rundir.Open(t.Context(), dir, manifest(), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec := &trajectory.Record{Key: trajectory.NewKey("r", 0, 0, 0), Outcome: trajectory.Answered}
	if _, err := d.Journal.Append(t.Context(), rec); err != nil || d.Resumed {
		t.Fatal(err, d.Resumed)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		edit  func(*rundir.Manifest)
		amend bool
		want  []string // of the error; none: it resumes
	}{
		{name: "the same"},
		{name: "free settings", edit: func(m *rundir.Manifest) { m.Version = "2.0" }},
		{
			name:  "another model",
			edit:  func(m *rundir.Manifest) { m.Identity[0].Value = "n" },
			amend: true,
			want:  []string{`model is "m" there, "n" now`, "--run"},
		},
		{name: "a new field", edit: func(m *rundir.Manifest) { m.Identity = append(m.Identity, rundir.Field{Name: "top_p", Value: "0.5"}) },
			want: []string{`top_p is "" there, "0.5" now`}},
		{name: "another mode", edit: func(m *rundir.Manifest) { m.Books.Mode = "eval" }, want: []string{"mode"}},
		{name: "more rollouts unasked", edit: func(m *rundir.Manifest) { m.Extent.Rollouts = 4 }, want: []string{`rollouts is "2" there, "4" now`, "--amend"}},
		{name: "fewer rollouts", edit: func(m *rundir.Manifest) { m.Extent.Rollouts = 1 }, amend: true, want: []string{"rollouts"}},
		{name: "more rollouts", edit: func(m *rundir.Manifest) { m.Extent.Rollouts, m.Extent.Planned = 4, 20 }, amend: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := manifest()
			if tt.edit != nil {
				tt.edit(&m)
			}
			before, _ := os.ReadFile(rundir.Path(dir))
			d, err := rundir.Open(t.Context(), dir, m, rundir.Options{Amend: tt.amend})
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if !d.Resumed || !d.Journal.Done(rec.Key) || d.Manifest.Created.IsZero() {
					t.Errorf("resumed %v, done %v", d.Resumed, d.Journal.Done(rec.Key))
				}
				got, err := rundir.Read(journal.OS{}, dir)
				if err != nil || got.Extent != m.Extent || got.Identity[2] != m.Identity[2] {
					t.Errorf("run.yaml: %+v, %v", got, err)
				}
				return
			}
			var mis *rundir.MismatchError
			if !errors.As(err, &mis) {
				t.Fatalf("%v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
			if now, _ := os.ReadFile(rundir.Path(dir)); !bytes.Equal(before, now) {
				t.Errorf("run.yaml was changed:\n%s", now)
			}
		})
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := rundir.Open(t.Context(), dir, manifest(), rundir.Options{})
	if !errors.Is(err, rundir.ErrNoRun) || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d entries were left behind", len(entries)-1)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	l, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var owned *rundir.OwnedError
	if _, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{}); !errors.As(err, &owned) || owned.Owner.PID != os.Getpid() {
		t.Fatalf("second owner: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l, err = rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{})
	if err != nil || l.Epoch() != 2 {
		t.Fatalf("after a release: %v", err)
	}
	l.Release()
}

// leave makes a directory look as if another process had it and did not give it back.
func leave(t *testing.T, owner rundir.Owner, age time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	l, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{Owner: &owner, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "lease-1.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-age)
	if err := os.Chtimes(name, then, then); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTakeover(t *testing.T) {
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Skip("no command `true` to make a dead process: ", err)
	}
	dead := child.Process.Pid
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	here := strings.TrimSpace(string(boot))
	tests := []struct {
		name  string
		owner rundir.Owner
		age   time.Duration
		taken bool
		local bool // needs a kernel that names its boot
	}{
		{name: "dead on this machine", owner: rundir.Owner{Host: "h", PID: dead, Boot: here, Space: space}, taken: true, local: true},
		{name: "alive on this machine", owner: rundir.Owner{Host: "h", PID: os.Getppid(), Boot: here, Space: space}},
		{
			name:  "its number was given to another process",
			owner: rundir.Owner{Host: "h", PID: os.Getpid(), Boot: here, Space: space, Start: "1"},
			taken: true,
			local: true,
		},
		{name: "another machine", owner: rundir.Owner{Host: "far", PID: dead, Boot: "b"}},
		{name: "another machine, silent", owner: rundir.Owner{Host: "far", PID: dead, Boot: "b"}, age: time.Minute, taken: true},
		{name: "a container on this machine", owner: rundir.Owner{Host: "c", PID: dead, Boot: here, Space: "pid:[1]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.local && here == "" {
				t.Skip("this system does not name its boot")
			}
			dir := leave(t, tt.owner, tt.age)
			l, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{})
			var owned *rundir.OwnedError
			if tt.taken {
				if err != nil || l.Epoch() != 2 {
					t.Fatalf("not taken over: %v", err)
				}
				l.Release()
			} else if !errors.As(err, &owned) || !strings.Contains(err.Error(), tt.owner.Host) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestClockGoesBack: a lease that seems to be of the future is kept, since its owner may be
// alive. The message says what happened and which file is in the way. A dead owner of this
// machine does not block the run directory, whatever the clock says.
func TestClockGoesBack(t *testing.T) {
	dir := leave(t, rundir.Owner{Host: "far", PID: 1, Boot: "b"}, -2*time.Hour)
	_, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{})
	var owned *rundir.OwnedError
	if !errors.As(err, &owned) || !strings.Contains(err.Error(), "the clock went back") || !strings.Contains(err.Error(), filepath.Join(dir, "lease-1.json")) {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(owned.File); err != nil {
		t.Fatal(err)
	}
	l, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{TTL: 40 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// Our own heartbeat of the future: the next one brings it back, and the lease is kept.
	name := filepath.Join(dir, "lease-1.json")
	future := time.Now().Add(2 * time.Hour)
	if err := os.Chtimes(name, future, future); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); ; <-tick.C {
		st, err := os.Stat(name)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no heartbeat after the clock went back: %v", err)
		}
		if st.ModTime().Before(future.Add(-time.Hour)) {
			break
		}
	}
	if err := l.Release(); err != nil {
		t.Errorf("the lease was lost when the clock went back: %v", err)
	}
}

func TestLostLease(t *testing.T) {
	dir := t.TempDir()
	l, err := rundir.Acquire(t.Context(), dir, rundir.LeaseOptions{TTL: 40 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	// Another machine took over, as it may when this one was suspended.
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(`{"host":"far","pid":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "lease-2.json")); err != nil { // whole, as the real one appears
		t.Fatal(err)
	}
	<-l.Lost()
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "far") {
		t.Errorf("%v", err)
	}
	l.Release()
}

// A run that was begun before each exact request named its distribution says so, once aloud
// and for good in run.yaml.
func TestRunsBegunWithUnnamedSampling(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	want := manifest()
	for i, named := range []bool{false, true, true} {
		want.Books.Sampling = nil
		if named {
			want.Books.Sampling = rundir.Fields{{Name: "temperature", Value: "1"}}
		}
		d, err := rundir.Open(t.Context(), dir, want, rundir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Unnamed != (i == 1) {
			t.Errorf("start %d: unnamed is %v", i, d.Unnamed)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := rundir.Read(journal.OS{}, dir)
		if err != nil {
			t.Fatal(err)
		}
		if since, ok := m.Books.Sampling.Get("since"); ok != named || named && !strings.Contains(since, "left to the server before") {
			t.Errorf("start %d: run.yaml says %q", i, since)
		}
	}
}

// What models and users wrote is for its owner; the folders above are left to the umask.
func TestOpenIsPrivate(t *testing.T) {
	above := filepath.Join(t.TempDir(), "runs")
	d, err := rundir.Open(t.Context(), filepath.Join(above, "a"), manifest(), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = filepath.WalkDir(filepath.Join(above, "a"), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What an amended start found out of the rows stays with the run.
func TestMatchedStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	want := manifest()
	want.Extent.Matched = true
	for range 2 {
		d, err := rundir.Open(t.Context(), dir, want, rundir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if m, err := rundir.Read(journal.OS{}, dir); err != nil || !m.Extent.Matched {
			t.Errorf("%+v, %v", m.Extent, err)
		}
		want.Extent.Matched = false
	}
}

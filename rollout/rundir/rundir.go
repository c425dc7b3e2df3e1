package rundir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermes/rollout/journal"
)

// Options tune [Open]. The zero value is usable.
type Options struct {
	Amend bool // accept new rows and more rollouts
	// Plan, if there is one, sees the log of a run that was begun earlier before anything is
	// written: have is its manifest, want the new one, which it may change. An error of it is
	// that of Open.
	Plan    func(have Manifest, want *Manifest, j *journal.Journal) error
	Journal journal.Options  // segment size, for tests
	Now     func() time.Time // nil means time.Now
	Log     *slog.Logger     // nil means silent
}

// Dir is a run directory that this process owns.
type Dir struct {
	Path     string
	Manifest Manifest
	Journal  *journal.Journal
	Resumed  bool // the run was begun earlier
	Unnamed  bool // by a hermes that left to the server what this one names in each exact request
	Lease    *Lease
}

// Open makes or resumes a run directory. An *OwnedError says that another process works
// on it, a *MismatchError that it holds another run; nothing was changed then.
func Open(ctx context.Context, dir string, want Manifest, o Options) (*Dir, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	dir = filepath.Clean(dir)
	if err := usable(dir); err != nil {
		return nil, err
	}
	fresh := false
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		fresh = true
		err := os.MkdirAll(filepath.Dir(dir), 0o755)
		if err == nil {
			err = os.MkdirAll(dir, 0o700) // what models and users wrote is for its owner
		}
		if err != nil {
			return nil, fmt.Errorf("make run directory: %w", err)
		}
	}
	lease, err := Acquire(ctx, dir, LeaseOptions{})
	if err != nil {
		return nil, err
	}
	d, err := begin(dir, want, o)
	if err != nil {
		err = errors.Join(err, lease.Release())
		if fresh {
			os.RemoveAll(filepath.Join(dir, lockName))
			os.Remove(dir) // only when nothing else is in it
		}
		return nil, err
	}
	d.Lease = lease
	return d, nil
}

// usable refuses a directory that is someone else's.
func usable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "run.yaml" {
			return nil
		}
	}
	for _, e := range entries {
		if n := e.Name(); n != lockName && !strings.HasPrefix(n, leasePrefix) && n != "run.yaml.tmp" {
			return fmt.Errorf("%s: %w, and it is not empty: it holds %s", dir, ErrNoRun, n)
		}
	}
	return nil
}

func begin(dir string, want Manifest, o Options) (*Dir, error) {
	d := &Dir{Path: dir, Manifest: want}
	have, err := Read(journal.OS{}, dir)
	switch {
	case err == nil:
		if err := compare(dir, have, want, o.Amend); err != nil {
			return nil, err
		}
		d.Resumed = true
		d.Manifest.Books.Sampling, d.Unnamed = sampledSince(have.Books.Sampling, want.Books.Sampling, o.Now())
		d.Manifest.Created = have.Created
		d.Manifest.Extent = grown(have.Extent, want.Extent)
		d.Journal, err = openLog(dir, o)
		if err != nil {
			return nil, err
		}
		if o.Plan != nil {
			if err := o.Plan(have, &d.Manifest, d.Journal); err != nil {
				return nil, errors.Join(err, d.Journal.Close())
			}
		}
	case errors.Is(err, ErrNoRun):
		d.Manifest.Created = o.Now().UTC().Truncate(time.Second)
	default:
		return nil, err
	}
	if err := Write(journal.OS{}, dir, d.Manifest); err != nil {
		if d.Journal != nil {
			err = errors.Join(err, d.Journal.Close())
		}
		return nil, err
	}
	if d.Journal == nil {
		d.Journal, err = openLog(dir, o)
	}
	return d, err
}

func openLog(dir string, o Options) (*journal.Journal, error) {
	o.Journal.Log = cmp.Or(o.Journal.Log, o.Log)
	return journal.Open(filepath.Join(dir, "journal"), o.Journal)
}

func compare(dir string, have, want Manifest, amend bool) error {
	if err := SameIdentity(dir, have, want); err != nil {
		return err
	}
	extent := have.Extent.diff(want.Extent)
	if len(extent) == 0 {
		return nil
	}
	if !amend {
		return &MismatchError{Dir: dir, Differences: extent, Extent: true}
	}
	shrinks := want.Extent.Rollouts < have.Extent.Rollouts || !covers(want.Extent.Shard, have.Extent.Shard)
	if shrinks {
		return &MismatchError{Dir: dir, Differences: extent} // an extent only grows
	}
	return nil
}

// covers reports whether a shard, or several joined by +, holds all of another one.
func covers(whole, part string) bool {
	if whole == "" {
		return true
	}
	have := strings.Split(whole, "+")
	for p := range strings.SplitSeq(part, "+") {
		if !slices.Contains(have, p) {
			return false
		}
	}
	return true
}

// grown is the extent of an amended run: rows that were done and are no longer in the
// dataset stay in the books.
func grown(have, want Extent) Extent {
	want.Planned = max(have.Planned, want.Planned)
	want.Matched = have.Matched
	return want
}

// sampledSince is what run.yaml says of the distribution of a resumed run. One that was
// begun by a hermes which named nothing says so for good: its stored answers stay.
func sampledSince(have, want Fields, now time.Time) (_ Fields, unnamed bool) {
	if len(want) == 0 {
		return want, false
	}
	since, ok := have.Get("since")
	if len(have) == 0 {
		since, ok = now.UTC().Format(time.RFC3339)+"; what was not named was left to the server before", true
	}
	if ok {
		want = append(slices.Clone(want), Field{"since", since})
	}
	return want, len(have) == 0
}

// Close closes the journal and gives the directory back.
func (d *Dir) Close() error {
	return errors.Join(d.Journal.Close(), d.Lease.Release())
}

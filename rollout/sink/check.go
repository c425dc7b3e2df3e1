package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/trajectory/stats"
)

// Difference is a projection that is not what the log gives.
type Difference struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

func (d Difference) Error() string { return d.File + " " + d.Why }

// Check makes the projections of a run directory again, in memory, and compares them with
// the files. With ended false a process has not closed the log, or still writes it: then the
// files may be behind the log, and what is only written at the end is not looked at.
func Check(ctx context.Context, j *journal.Journal, dir string, m rundir.Manifest, ended bool) ([]Difference, error) {
	c := &comparison{dir: dir, ended: ended, made: map[string]int64{}, why: map[string]string{}}
	p, err := New(j, dir, m, Options{FS: c})
	if err != nil {
		return nil, err
	}
	_, err = p.Finish(ctx)
	if unbalanced := p.books.totals.Statistics(p.books.planned).Balance(); unbalanced != nil {
		err = nil // the caller balances the books itself
	}
	if err != nil {
		return nil, err
	}
	return c.differences()
}

// comparison is a file system that takes what is written to it for what should be in the
// files of a run directory.
type comparison struct {
	dir   string
	ended bool
	made  map[string]int64  // bytes of the files that were made, by their final name
	why   map[string]string // how they differ
}

// of is the name that a file has in the end, relative to the directory.
func (c *comparison) of(name string) string {
	rel, err := filepath.Rel(c.dir, strings.TrimSuffix(name, ".tmp"))
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

// skipped reports whether a file need not be as the log has them now.
func (c *comparison) skipped(file string) bool {
	switch file {
	case positionsName:
		return true
	case "statistics.json", "failed_trajectories.jsonl", "report.md":
		return !c.ended
	case listing.FileName: // it may be deleted, and a reader makes its own
		head, err := c.head(file, 64)
		return errors.Is(err, fs.ErrNotExist) || err == nil && !listing.IsOfRun(head)
	}
	return false
}

func (c *comparison) head(file string, n int64) ([]byte, error) {
	f, err := journal.OS{}.Open(filepath.Join(c.dir, file), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	got, err := f.ReadAt(b, 0)
	if got == 0 && err != nil {
		return nil, err
	}
	return b[:got], nil
}

func (c *comparison) differences() (list []Difference, err error) {
	for _, file := range slices.Sorted(maps.Keys(c.made)) {
		if c.skipped(file) {
			continue
		}
		why := c.why[file]
		if why == "" {
			why, err = c.length(file)
			if err != nil {
				return nil, err
			}
		}
		if why != "" {
			list = append(list, Difference{file, why})
		}
	}
	return list, nil
}

// length compares the length of a file with what was made.
func (c *comparison) length(file string) (why string, err error) {
	f, err := journal.OS{}.Open(filepath.Join(c.dir, file), false)
	if errors.Is(err, fs.ErrNotExist) {
		if c.ended {
			return "is missing", nil
		}
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	switch want := c.made[file]; {
	case err != nil || !c.ended || size == want:
		return "", err
	default:
		return fmt.Sprintf("has %d bytes, the log gives %d", size, want), nil
	}
}

// compared is one file of a comparison. What is written is compared at once.
type compared struct {
	c    *comparison
	file string
	real journal.File // nil: there is none
}

// Open finds nothing: everything is made from the beginning.
func (c *comparison) Open(name string, _ bool) (journal.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (c *comparison) Create(name string) (journal.File, error) {
	x := &compared{c: c, file: c.of(name)}
	c.made[x.file] = 0
	real, err := journal.OS{}.Open(filepath.Join(c.dir, x.file), false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		x.real = real
	}
	return x, nil
}

func (x *compared) WriteAt(b []byte, at int64) (int, error) {
	x.c.made[x.file] = max(x.c.made[x.file], at+int64(len(b)))
	if x.real == nil || x.c.why[x.file] != "" {
		return len(b), nil
	}
	have := make([]byte, len(b))
	n, err := x.real.ReadAt(have, at)
	if n < len(b) && err == nil {
		return 0, fmt.Errorf("%s: %d bytes of %d", x.file, n, len(b))
	}
	if want := b[:n]; !bytes.Equal(have[:n], want) {
		for i := range want {
			if have[i] != want[i] {
				x.c.why[x.file] = fmt.Sprintf("differs from the log at byte %d", at+int64(i))
				break
			}
		}
	}
	return len(b), nil
}

func (x *compared) Close() error {
	if x.real == nil {
		return nil
	}
	return x.real.Close()
}

func (x *compared) ReadAt([]byte, int64) (int, error) { return 0, journal.ErrReadOnly }
func (x *compared) Size() (int64, error)              { return x.c.made[x.file], nil }
func (x *compared) Truncate(int64) error              { return nil }
func (x *compared) Sync() error                       { return nil }
func (c *comparison) Rename(_, _ string) error        { return nil }
func (c *comparison) Remove(string) error             { return nil }
func (c *comparison) MkdirAll(dir string) error       { return nil }
func (c *comparison) SyncDir(string) error            { return nil }

// List returns the files that were made.
func (c *comparison) List(dir string) (names []string, err error) {
	for file := range c.made {
		if full := filepath.Join(c.dir, filepath.FromSlash(file)); filepath.Dir(full) == filepath.Clean(dir) {
			names = append(names, filepath.Base(full))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Behind reports whether statistics that were written once are those of an earlier state of
// the log: what a process that was killed leaves behind. What cannot be read as statistics
// is none.
func Behind(ctx context.Context, j *journal.Journal, m rundir.Manifest, have []byte) (bool, error) {
	var then stats.Statistics
	if json.Unmarshal(have, &then) != nil {
		return false, nil
	}
	same := func(t *stats.Totals) bool {
		now := t.Statistics(then.Planned) // an amended run plans more
		text, err := json.MarshalIndent(now, "", "  ")
		return err == nil && string(text)+"\n" == string(have)
	}
	found := false
	err := count(ctx, j, m, func(t *stats.Totals) bool {
		if t.Attempts == then.Attempts {
			found = same(t)
		}
		return !found && t.Attempts <= then.Attempts
	})
	return found, err
}

// Package runs is what people do with run directories that exist: list, look, verify,
// count, export, merge, follow. Everything is read out of the journal; only Merge and an
// export in place write into a run directory, and take its lease for it.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// ErrNoRecord says that a run has no record of a sample.
var ErrNoRecord = errors.New("no such record")

// ErrSelection says that a [Selection] cannot be read.
var ErrSelection = errors.New("choice of samples")

// Run is a run directory opened for reading; another process may be writing it.
type Run struct {
	Dir      string
	Manifest rundir.Manifest
	Journal  *journal.Journal
	sorter   *sink.Sorter
}

// Open opens a run directory for reading.
func Open(dir string) (*Run, error) { return open(dir, false) }

// Salvage opens a run directory for reading, as it would be after [Repair]: what is damaged
// in its log is left out. Nothing is written.
func Salvage(dir string) (*Run, error) { return open(dir, true) }

func open(dir string, salvage bool) (*Run, error) {
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{ReadOnly: true, Salvage: salvage})
	if err != nil {
		return nil, err
	}
	sorter, err := sink.NewSorter(j, m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", rundir.Path(dir), err), j.Close())
	}
	return &Run{Dir: dir, Manifest: m, Journal: j, sorter: sorter}, nil
}

// Close ends reading.
func (r *Run) Close() error { return r.Journal.Close() }

// Stats counts the books out of the log.
func (r *Run) Stats(ctx context.Context) (stats.Statistics, error) {
	return sink.Count(ctx, r.Journal, r.Manifest)
}

// Summary is one line of a list of runs.
type Summary struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Mode    string    `json:"mode"`
	Model   string    `json:"model"`
	Planned int64     `json:"planned"`
	Done    int       `json:"done"`
	Failed  int       `json:"failed"`
	Bytes   int64     `json:"bytes"`
	Error   string    `json:"error,omitempty"`
}

// List finds the runs in a folder, oldest first. A run that cannot be read is listed with
// its error.
func List(parent string) ([]Summary, error) {
	dirs, err := Folders(parent)
	if err != nil {
		return nil, err
	}
	var list []Summary
	for _, dir := range dirs {
		list = append(list, summarize(dir))
	}
	slices.SortStableFunc(list, func(a, b Summary) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// Folders are the run directories in a folder, by name. A folder that does not exist has none.
func Folders(parent string) ([]string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if _, err := os.Stat(rundir.Path(dir)); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func summarize(dir string) Summary {
	s := Summary{Name: filepath.Base(dir)}
	r, err := Open(dir)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	defer r.Close()
	model, _ := r.Manifest.Identity.Get("model")
	st := r.Journal.Stats()
	s.Created = r.Manifest.Created
	s.Mode = r.Manifest.Books.Mode
	s.Model = model
	s.Planned = r.Manifest.Extent.Planned
	s.Done, s.Failed, s.Bytes = st.Done, len(r.Journal.Failed()), st.Bytes
	return s
}

// WriteList writes a list for people, or as JSON lines.
func WriteList(w io.Writer, list []Summary, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		for _, s := range list {
			if err := e.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tBEGUN\tMODE\tMODEL\tDONE\tFAILED\tPLANNED\tBYTES")
	for _, s := range list {
		if s.Error != "" {
			fmt.Fprintf(t, "%s\t%s\n", s.Name, s.Error)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", s.Name, s.Created.Format(time.DateTime), s.Mode, s.Model, s.Done, s.Failed, s.Planned, s.Bytes)
	}
	return t.Flush()
}

// Find returns the record in force of a row's sample, by its key or as ROW or ROW/SAMPLE.
func (r *Run) Find(ctx context.Context, what string) (*trajectory.Record, error) {
	for e, err := range r.Journal.Records(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt || !e.Current {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return nil, err
		}
		if what == e.Key.String() || what == fmt.Sprintf("%s/%d", rec.Row, rec.Sample) || what == rec.Row && rec.Sample == 0 {
			return rec, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: %q (want KEY, ROW or ROW/SAMPLE)", r.Dir, ErrNoRecord, what)
}

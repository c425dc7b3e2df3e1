package compress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermes/trajectory/columns"
)

// Job is work on whole files.
type Job struct {
	Inputs      Inputs
	Out         string   // .jsonl, or .parquet for Parquet inputs
	Identity    Identity // Inputs and the compressor's numbers are filled in
	Sample      Sample   // rows to take; zero: all
	Concurrency int      // rows at once; 0: 8
	Created     string   // names the writing program in Parquet
	Progress    func(Metrics)
	Drain       <-chan struct{} // once closed no row is begun; those under way end; nil: never
}

// ErrDrained says that the work was asked to end before its last row.
var ErrDrained = errors.New("stopped; the same command goes on")

// Run compresses every row of the inputs into one output, in their order, and returns the
// books. It takes up work that was left under the same name: after a kill at any point
// every row is in the output once. The output appears under its name when it is
// whole; beside it are the originals, the log of rows and the metrics. What is in memory
// is bounded by Concurrency rows.
//
// After a [StopError] or a cancelled context the rows so far are kept for the next start.
func (c *Compressor) Run(ctx context.Context, j Job) (m Metrics, err error) {
	if parquet := strings.HasSuffix(j.Out, ".parquet"); parquet != j.Inputs.Parquet || !parquet && !strings.HasSuffix(j.Out, ".jsonl") {
		want := ".jsonl"
		if j.Inputs.Parquet {
			want = ".parquet"
		}
		return m, &OtherError{fmt.Sprintf("output %s: want a name that ends in %s, as the inputs do", j.Out, want)}
	}
	for _, f := range j.Inputs.Files {
		if filepath.Clean(f.Path) == filepath.Clean(j.Out) {
			return m, &OtherError{fmt.Sprintf("output %s is an input", j.Out)}
		}
	}
	id := j.Identity
	id.Sample = j.Sample
	id.Version = 1
	id.Inputs = j.Inputs.Files
	id.Target = c.o.Target
	id.Summary = c.o.Summary
	id.Tail = c.o.Tail
	w, err := open(j.Out, id)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.metrics.Target, w.metrics.Tokenizer, w.metrics.Summarizer = c.o.Target, id.Tokenizer, id.Summarizer
	if w.ended {
		if err := os.Remove(j.Out + partSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w.metrics, err
		}
		return w.metrics, w.tell()
	}
	err = c.rows(ctx, j, w)
	if err != nil {
		return w.metrics, errors.Join(err, w.sync())
	}
	if err := w.note(logged{Row: w.done, Out: w.outAt, Originals: w.origAt, End: true}); err != nil {
		return w.metrics, err
	}
	if err := w.sync(); err != nil {
		return w.metrics, err
	}
	return w.metrics, errors.Join(w.publish(j), w.metrics.Balance())
}

// publish puts the whole output in its place.
func (w *work) publish(j Job) error {
	part := w.path + partSuffix
	if j.Inputs.Parquet {
		whole := w.path + ".whole"
		if err := toParquet(part, whole, j.Created, j.Inputs.LogProbs); err != nil {
			return err
		}
		if err := os.Rename(whole, w.path); err != nil {
			return err
		}
		if err := os.Remove(part); err != nil {
			return err
		}
		return w.tell()
	}
	if err := os.Rename(part, w.path); err != nil {
		return err
	}
	return w.tell()
}

// tell writes the metrics.
func (w *work) tell() error {
	raw, err := w.metrics.JSON()
	if err != nil {
		return err
	}
	return replace(w.path+MetricsSuffix, raw)
}

func replace(path string, raw []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".hermes-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// toParquet writes lines that hold rows as a Parquet file.
func toParquet(from, to, created, logProbs string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	w := columns.NewWriter(out, created, logProbs)
	err = eachLine(from, func(line []byte) error {
		var row columns.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		_, err := w.WriteRow(row)
		return err
	})
	return errors.Join(err, w.Close(), out.Sync(), out.Close())
}

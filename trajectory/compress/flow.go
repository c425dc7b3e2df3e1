package compress

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"hermes/trajectory/columns"
)

// flow takes rows through a compressor: one reader begins them in the order of the input,
// a worker compresses each, one writer puts them into the output in the same order. The
// reader waits for workers and workers for the writer: at most twice Concurrency rows are
// in memory.
type flow struct {
	compressor *Compressor
	job        Job
	work       *work // the reader uses its log of rows, the writer the rest
	done       int64 // rows of earlier starts
	workers    *errgroup.Group
	permits    chan struct{}
	queue      chan pending
	drained    bool // written before queue is closed, read after everything ended
}

// pending is a row under way.
type pending struct {
	in  []byte
	out chan Result // one value, unless the work stops
}

// rows does the rows that are not done.
func (c *Compressor) rows(ctx context.Context, j Job, w *work) error {
	n := j.Concurrency
	if n <= 0 {
		n = 8
	}
	g, gctx := errgroup.WithContext(ctx)
	f := &flow{compressor: c, job: j, work: w, done: w.done, workers: g, permits: make(chan struct{}, n), queue: make(chan pending, n)}
	g.Go(func() error {
		defer close(f.queue)
		return f.read(gctx)
	})
	g.Go(func() error { return f.write(gctx) })
	err := g.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.drained && err == nil {
		return ErrDrained
	}
	return err
}

// read compares the rows that are done with the input, and begins the others.
func (f *flow) read(ctx context.Context) error {
	rows := int64(0)
	for line, err := range f.job.Sample.of(f.job.Inputs.rows()) {
		if err != nil {
			return err
		}
		row := rows
		rows++
		if row < f.done {
			if err := f.work.same(row, line); err != nil {
				return err
			}
			continue
		}
		if !f.permit(ctx) || !f.begin(ctx, row, line) {
			return nil
		}
	}
	if rows < f.done {
		return &OtherError{fmt.Sprintf("the input has %d rows, %s has %d already; remove %s* to begin again", rows, f.work.path, f.done, f.work.path)}
	}
	return nil
}

// permit waits until a row may begin, and reports whether one may.
func (f *flow) permit(ctx context.Context) bool {
	select {
	case <-f.job.Drain: // asked first: a permit may be free too
		f.drained = true
		return false
	default:
	}
	select {
	case f.permits <- struct{}{}:
		return true
	case <-f.job.Drain:
		f.drained = true
		return false
	case <-ctx.Done():
		return false
	}
}

// begin starts the worker of a row and hands the row to the writer. It reports whether
// that was possible.
func (f *flow) begin(ctx context.Context, row int64, line []byte) bool {
	p := pending{line, make(chan Result, 1)}
	f.workers.Go(func() error {
		defer func() { <-f.permits }()
		r, err := f.compressor.one(ctx, row, line, f.job.Inputs.Parquet)
		if err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
		p.out <- r
		return nil
	})
	select {
	case f.queue <- p:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Compressor) one(ctx context.Context, row int64, line []byte, parquet bool) (Result, error) {
	key := strconv.FormatInt(row, 10)
	if !parquet {
		return c.Line(ctx, key, line)
	}
	var r columns.Row
	if err := json.Unmarshal(line, &r); err != nil {
		return Result{}, err
	}
	result, changed, err := c.Columns(ctx, key, &r)
	if err == nil && changed != nil {
		result.row, err = json.Marshal(changed)
	}
	return result, err
}

// write puts the rows into the output. When the work stops, it keeps the rows that are
// ready, up to the first that is not.
func (f *flow) write(ctx context.Context) error {
	for p := range f.queue {
		var r Result
		select {
		case r = <-p.out:
		case <-ctx.Done():
			select {
			case r = <-p.out:
			default:
				return nil
			}
		}
		if err := f.work.put(p.in, r); err != nil {
			return err
		}
		if f.job.Progress != nil {
			f.job.Progress(f.work.metrics)
		}
	}
	return nil
}

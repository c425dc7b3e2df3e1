package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"hermes/rollout/journal"
	"hermes/trajectory/columns"
	"hermes/trajectory/stats"
)

// A part is ended after so many rows or bytes, whichever comes first: a function of the
// log alone, so that projecting again cuts at the same places.
const (
	partRows  = 5000
	partBytes = 128 << 20
)

// parts writes accepted records into Parquet files that are named by the place of their
// first record. An unfinished part is only in memory: after a crash it is written again.
type parts struct {
	dir     string
	fs      journal.FS
	created string
	probs   string // of which distribution the log-probs are

	buf    bytes.Buffer
	writer *columns.Writer
	first  journal.Offset // of the part under way
	rows   int
	size   int
}

// Parquet is the sink of the folder parquet/; created names the writing program, logProbs
// the distribution of the log-probs.
func Parquet(fsys journal.FS, dir, created, logProbs string) Sink {
	return &parts{dir: filepath.Join(dir, "parquet"), fs: fsys, created: created, probs: logProbs}
}

func (p *parts) Name() string { return "parquet" }

func (p *parts) Resume(_ context.Context, state json.RawMessage) error {
	p.reset()
	names, err := p.fs.List(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if state != nil {
			return ErrStale
		}
		if err = p.fs.MkdirAll(p.dir); err == nil {
			err = p.fs.SyncDir(filepath.Dir(p.dir))
		}
	}
	if err != nil {
		return err
	}
	var s partsState
	if state != nil && json.Unmarshal(state, &s) != nil {
		return ErrStale
	}
	have := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "part-") {
			continue
		}
		if state != nil && n < partName(s.Next) && strings.HasSuffix(n, ".parquet") {
			have++
			continue
		}
		if err := p.fs.Remove(filepath.Join(p.dir, n)); err != nil {
			return err
		}
	}
	if have != s.Parts {
		return ErrStale
	}
	return nil
}

// partsState is what is on disk for good: so many parts, all before Next.
type partsState struct {
	Parts int            `json:"parts"`
	Next  journal.Offset `json:"next"`
}

func partName(first journal.Offset) string { return fmt.Sprintf("part-%016x.parquet", uint64(first)) }

func (p *parts) reset() {
	p.buf.Reset()
	p.writer = nil
	p.rows = 0
	p.size = 0
}

func (p *parts) Write(_ context.Context, it Item) error {
	if it.Kind != journal.KindFinal || it.Book != stats.Accepted {
		return nil
	}
	if p.writer == nil {
		p.writer, p.first = columns.NewWriter(&p.buf, p.created, p.probs), it.At
	}
	n, err := p.writer.Write(it.Record)
	if err != nil {
		return err
	}
	p.rows++
	p.size += n
	if p.rows >= partRows || p.size >= partBytes {
		return p.end()
	}
	return nil
}

// end writes the part under way.
func (p *parts) end() error {
	if p.writer == nil {
		return nil
	}
	if err := p.writer.Close(); err != nil {
		return err
	}
	name := filepath.Join(p.dir, partName(p.first))
	if err := journal.WriteFile(p.fs, name, p.buf.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	p.reset()
	return nil
}

func (p *parts) Commit(_ context.Context, upTo journal.Offset) (journal.Offset, json.RawMessage, error) {
	s := partsState{Next: upTo}
	if p.writer != nil {
		s.Next = p.first
	}
	names, err := p.fs.List(p.dir)
	if err != nil {
		return 0, nil, err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "part-") && strings.HasSuffix(n, ".parquet") && n < partName(s.Next) {
			s.Parts++
		}
	}
	state, err := json.Marshal(s)
	return s.Next, state, err
}

// Finish writes the part under way as it is. When the run goes on, a longer part of the
// same name replaces it.
func (p *parts) Finish(context.Context) error { return p.end() }

func (p *parts) Close() error { return nil }

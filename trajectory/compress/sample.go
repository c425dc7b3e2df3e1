package compress

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Sample chooses rows by chance: the same ones for the same seed, whatever the others say.
type Sample struct {
	Percent float64 `json:"percent"` // of the rows, above 0 and below 100; 0: all
	Seed    int64   `json:"seed"`
}

// takes reports whether a row of the inputs is chosen.
func (s Sample) takes(row int64) bool {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(s.Seed))
	binary.LittleEndian.PutUint64(b[8:], uint64(row))
	h.Write(b[:])
	x := h.Sum64() // FNV mixes its last bytes little: finish as SplitMix64 does
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11)/(1<<53)*100 < s.Percent
}

// of yields the rows that are chosen.
func (s Sample) of(rows iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	if s.Percent == 0 {
		return rows
	}
	return func(yield func([]byte, error) bool) {
		row := int64(0)
		for line, err := range rows {
			if err == nil && !s.takes(row) {
				row++
				continue
			}
			row++
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// Look tells what Run would come to, and writes nothing. With a compressor without a
// Summarizer no model is asked: extracts replace the summaries.
func (c *Compressor) Look(ctx context.Context, j Job) (m Metrics, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, j.Concurrency))
	var mu sync.Mutex
	at := int64(-1)
	for line, rerr := range j.Sample.of(j.Inputs.rows()) {
		at++
		if rerr != nil || gctx.Err() != nil {
			err = rerr
			break
		}
		row := at
		g.Go(func() error {
			r, err := c.one(gctx, row, line, j.Inputs.Parquet)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			m.add(r)
			return nil
		})
	}
	if werr := g.Wait(); err == nil {
		err = werr
	}
	m.Target = c.o.Target
	m.Tokenizer = j.Identity.Tokenizer
	m.Summarizer = j.Identity.Summarizer
	return m, err
}

package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"hermes/datasets/scan"
)

// Part is one dataset of a mixture.
type Part struct {
	Data   *Dataset
	Weight float64 // share of the drawn rows, relative to the others; above 0
}

// MixOptions tune [Mix].
type MixOptions struct {
	Seed uint64
	Rows int64 // stop after so many; 0 means as long as the parts last
	All  bool  // use up every part, even though the shares drift at the end; else stop when the first part is empty
}

// Mix draws rows from the parts by weight, each part in its order, and writes them as
// JSONL to path. It returns how many rows came from each part. Seed and parts decide
// the result. Two rows with the same explicit id would spoil the mixture: validate the
// written file, or the parts opened together.
func Mix(ctx context.Context, path string, parts []Part, o MixOptions) (taken []int64, err error) {
	if byName(path) != JSONL {
		return nil, fmt.Errorf("%s: a mixture is written as .jsonl (also .gz, .zst)", path)
	}
	if len(parts) == 0 || o.Rows < 0 {
		return nil, fmt.Errorf("mix of %d parts, %d rows", len(parts), o.Rows)
	}
	for i, p := range parts {
		if !(p.Weight > 0) || math.IsInf(p.Weight, 0) {
			return nil, fmt.Errorf("weight %v of part %d: want a number above 0", p.Weight, i+1)
		}
	}
	out, err := create(path, 1<<20)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.abort()) }()
	m := &mixer{live: make([]bool, len(parts)), r: rand.New(rand.NewPCG(o.Seed, 0x6d6978)), parts: parts}
	for i, p := range parts {
		next, stop := iter.Pull2(p.Data.texts(ctx))
		defer stop()
		m.next, m.live[i] = append(m.next, next), true
	}
	taken = make([]int64, len(parts))
	for n := int64(0); o.Rows == 0 || n < o.Rows; n++ {
		i, text, err := m.draw(o.All)
		if err != nil {
			return taken, err
		}
		if text == nil {
			break
		}
		taken[i]++
		if err := out.line(text); err != nil {
			return taken, err
		}
	}
	return taken, out.commit()
}

type mixer struct {
	parts []Part
	next  []func() ([]byte, error, bool)
	live  []bool
	r     *rand.Rand
}

// draw picks a part and takes its next row; nil means that the mixture is over.
func (m *mixer) draw(all bool) (int, []byte, error) {
	for {
		sum := 0.0
		for i, p := range m.parts {
			if m.live[i] {
				sum += p.Weight
			}
		}
		if sum == 0 {
			return 0, nil, nil
		}
		at, i := m.r.Float64()*sum, -1
		for k, p := range m.parts {
			if m.live[k] {
				i = k
				if at < p.Weight {
					break
				}
				at -= p.Weight
			}
		}
		text, err, ok := m.next[i]()
		switch {
		case err != nil:
			return i, nil, err
		case ok:
			return i, text, nil
		case !all:
			return i, nil, nil
		}
		m.live[i] = false
	}
}

// texts yields the JSON text of each usable row; it is valid until the next. The first
// row that cannot be used is an error.
func (d *Dataset) texts(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stopped := false
		err := d.converted(ctx, AsIs, Fail, func(_ []scan.Field, text []byte) error {
			if !yield(text, nil) {
				stopped = true
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

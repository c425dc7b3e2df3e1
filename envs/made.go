package envs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"hermes/datasets"
)

// Made makes the n rows of a split: row(i) is the i-th as JSON writes it, or nil where
// there is none. No more are made than o asks for. name is the environment's.
func Made(name string, split Split, n int, o datasets.Options, row func(i int) any) (*datasets.Dataset, error) {
	if !o.Shuffle && o.Limit > 0 {
		n = min(n, int(o.Limit))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range n {
		r := row(i)
		if r == nil {
			continue
		}
		if err := enc.Encode(r); err != nil {
			return nil, fmt.Errorf("row %d of %s: %w", i, name, err)
		}
	}
	return datasets.Inline(name+":"+string(split), b.String(), o)
}

// SplitOf is the only split in which a made question is asked: its hash decides, so that no
// question of the evaluation occurs in training, whatever is drawn.
func SplitOf(question string) Split {
	h := fnv.New64a()
	h.Write([]byte(question)) // never fails
	if h.Sum64()>>32&1 == 1 {
		return Eval
	}
	return Train
}

// SeedFor is the seed of row i of a split: even in training, odd in evaluation, and such that
// the question that it makes is asked in that split alone.
func SeedFor(split Split, seed uint64, i int, question func(seed uint64) string) uint64 {
	s := (seed<<20 + uint64(i)) << 1
	if split == Eval {
		s |= 1
	}
	for SplitOf(question(s)) != split {
		s += 1 << 48
	}
	return s
}

// Stored names the datasets of an environment that reads rows from files or the hub.
type Stored struct{ Train, Eval string }

// Check refuses rows for evaluation without rows for training.
func (s Stored) Check() error {
	if s.Eval != "" && s.Train == "" {
		return errors.New("eval without dataset: give both")
	}
	return nil
}

// Open opens a split. It is nil, without an error, where no dataset is named at all. name
// is the environment's.
func (s Stored) Open(ctx context.Context, name string, split Split, o datasets.Options) (*datasets.Dataset, error) {
	spec := s.Train
	if split == Eval {
		spec = s.Eval
	}
	switch {
	case spec != "":
		return datasets.Open(ctx, o, spec)
	case s != Stored{}:
		return nil, fmt.Errorf("split %s: set envs.%s.eval to a dataset", split, name)
	}
	return nil, nil
}

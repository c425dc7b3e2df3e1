package journal

import (
	"context"
	"iter"

	"hermes/trajectory"
)

// History is the final record of a sample with the model answers that led to it.
type History struct {
	Entry
	j     *Journal
	turns []turnRef
}

// Turns yields the answers in the order in which the sample asked for them. Where the
// record was copied from another log there are none.
func (h History) Turns() iter.Seq2[StoredTurn, error] {
	return func(yield func(StoredTurn, error) bool) {
		for _, ref := range h.turns {
			t, err := h.j.readTurn(h.Key, ref)
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Histories yields every final entry in log order, each with its answers: those that are
// stored since the log began or since the sample was reopened, without the ones that
// later answers replaced. Only the places of answers of unfinished samples are held.
func (j *Journal) Histories(ctx context.Context) iter.Seq2[History, error] {
	return func(yield func(History, error) bool) {
		open := map[trajectory.Key][]turnRef{}
		for e, err := range j.entries(ctx, 0, true) {
			if err != nil {
				yield(History{}, err)
				return
			}
			switch e.Kind {
			case KindTurn:
				open[e.Key] = replaced(open[e.Key], e.At, e.Header)
			case KindFinal:
				h := History{Entry: e, j: j, turns: open[e.Key]}
				delete(open, e.Key)
				if !yield(h, nil) {
					return
				}
			}
		}
	}
}

// replaced puts an answer into its place. The answers there and behind it are of another
// history. An answer before which others were lost has no place.
func replaced(list []turnRef, at Offset, h Header) []turnRef {
	if int(h.seq) > len(list) {
		return list
	}
	return append(list[:min(int(h.seq), len(list))], turnRef{at: at, attempt: uint32(h.Attempt)})
}

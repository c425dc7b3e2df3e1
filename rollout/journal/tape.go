package journal

import (
	"sync"

	"hermes/trajectory"
)

// Tape replays the stored answers of one key and stores what is bought beyond them. It
// implements policy.Tape and is safe for concurrent use.
type Tape struct {
	j       *Journal
	key     trajectory.Key
	attempt int

	mu       sync.Mutex
	stored   int          // answers that an earlier attempt left
	pending  []StoredTurn // those not yet replayed
	next     int          // the place of the next answer
	replayed int
	rebought int
	err      error // an answer that could not be stored
}

// NewTape opens the tape of a key for an attempt. With replay false stored answers are
// not used, but what is bought in their place is counted all the same.
func NewTape(j *Journal, key trajectory.Key, attempt int, replay bool) (*Tape, error) {
	t := &Tape{j: j, key: key, attempt: attempt}
	for turn, err := range j.Turns(key) {
		if err != nil {
			return nil, err
		}
		t.stored++
		if replay {
			t.pending = append(t.pending, turn)
		}
	}
	return t, nil
}

// Lookup returns the next stored answer if its request had this digest. At the first
// other digest the rest of the tape is of another history, and is not replayed.
func (t *Tape) Lookup(digest [32]byte) (answer []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 {
		return nil, false
	}
	if t.pending[0].Digest != digest {
		t.pending = nil
		return nil, false
	}
	answer = t.pending[0].Answer
	t.pending = t.pending[1:]
	t.next++
	t.replayed++
	return answer, true
}

// Peek reports whether the next stored answer's request had this digest; it changes
// nothing, whatever the digest.
func (t *Tape) Peek(digest [32]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending) > 0 && t.pending[0].Digest == digest
}

// Store keeps an answer that was just bought. It takes the place of the stored answers
// that were not replayed.
func (t *Tape) Store(digest [32]byte, answer []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.j.turn(t.key, t.attempt, t.next, digest, answer); err != nil {
		t.err = err
		return err
	}
	if t.next < t.stored {
		t.rebought++
	}
	t.pending = nil
	t.next++
	return nil
}

// Err says why an answer could not be stored, or nil. What became of the sample is not its
// own doing then, and must not be recorded.
func (t *Tape) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Replayed is the number of answers that came from the journal.
func (t *Tape) Replayed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.replayed
}

// Rebought is the number of answers that were bought although one was stored.
func (t *Tape) Rebought() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rebought
}

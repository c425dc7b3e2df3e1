package ledger

import (
	"crypto/sha256"
	"slices"
)

// maxKeys is how many idempotency keys are remembered.
const maxKeys = 1 << 16

type keySum [16]byte

// keyring remembers the answers to the last requests that had an idempotency key.
type keyring struct {
	answers map[keySum]*keyed
	order   []*keyed // a ring
	next    int
}

// keyed is an answer; it does not change.
type keyed struct {
	sum    keySum
	answer string
}

func newKeyring() keyring { return keyring{answers: map[keySum]*keyed{}} }

func sumOf(key string) keySum {
	h := sha256.Sum256([]byte(key))
	return keySum(h[:16])
}

// Answered returns the answer that a request with this key has had, "" for none.
func (s *State) Answered(key string) string {
	if k := s.keys.answers[sumOf(key)]; k != nil {
		return k.answer
	}
	return ""
}

// Answer remembers the answer to a request with a key.
func (s *State) Answer(key, answer string) {
	sum := sumOf(key)
	s.keys.add(sum, answer)
	s.events = appendEntry(s.events, entryKey, append(sum[:], answer...))
}

func (k *keyring) add(sum keySum, answer string) {
	if k.answers[sum] != nil { // it is answered once
		return
	}
	e := &keyed{sum, answer}
	k.answers[sum] = e
	if len(k.order) < maxKeys {
		k.order = append(k.order, e)
		return
	}
	delete(k.answers, k.order[k.next].sum)
	k.order[k.next] = e
	k.next = (k.next + 1) % maxKeys
}

func (k *keyring) replay(body []byte) error {
	if len(body) < len(keySum{}) {
		return errEntry
	}
	k.add(keySum(body), string(body[len(keySum{}):]))
	return nil
}

// list are the answers, oldest first.
func (k *keyring) list() []*keyed {
	return slices.Concat(k.order[k.next:], k.order[:k.next])
}

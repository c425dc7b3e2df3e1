package ledger

import "crypto/sha256"

// maxKeys is how many idempotency keys are remembered.
const maxKeys = 1 << 16

type keySum [16]byte

// keyring remembers the answers to the last requests that had an idempotency key.
type keyring struct {
	answers map[keySum]string
	order   []keySum // a ring
	next    int
}

func newKeyring() keyring { return keyring{answers: map[keySum]string{}} }

func sumOf(key string) keySum {
	h := sha256.Sum256([]byte(key))
	return keySum(h[:16])
}

// Answered returns the answer that a request with this key has had, "" for none.
func (s *State) Answered(key string) string { return s.keys.answers[sumOf(key)] }

// Answer remembers the answer to a request with a key.
func (s *State) Answer(key, answer string) {
	sum := sumOf(key)
	s.keys.add(sum, answer)
	s.events = appendEntry(s.events, entryKey, append(sum[:], answer...))
}

func (k *keyring) add(sum keySum, answer string) {
	if _, known := k.answers[sum]; !known {
		if len(k.order) < maxKeys {
			k.order = append(k.order, sum)
		} else {
			delete(k.answers, k.order[k.next])
			k.order[k.next] = sum
			k.next = (k.next + 1) % maxKeys
		}
	}
	k.answers[sum] = answer
}

func (k *keyring) replay(body []byte) error {
	if len(body) < len(keySum{}) {
		return errEntry
	}
	k.add(keySum(body), string(body[len(keySum{}):]))
	return nil
}

func (k *keyring) snapshot(b []byte) []byte {
	for i := range k.order {
		sum := k.order[(k.next+i)%len(k.order)]
		b = appendEntry(b, entryKey, append(sum[:], k.answers[sum]...))
	}
	return b
}

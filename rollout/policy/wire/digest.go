package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Digest hashes fields, each with its length before it, so that no two lists of fields
// give the same bytes. Callers give it what identifies a request, never an address, a
// key or a run's name.
type Digest struct {
	h   hash.Hash
	len [8]byte
	buf []byte
}

// NewDigest begins a digest for a purpose.
func NewDigest(purpose string) *Digest {
	d := &Digest{h: sha256.New()}
	d.String(purpose)
	return d
}

// Reset starts again.
func (d *Digest) Reset(purpose string) {
	d.h.Reset()
	d.String(purpose)
}

// Bytes adds a field.
func (d *Digest) Bytes(b []byte) {
	d.Int(int64(len(b)))
	d.h.Write(b)
}

// String adds a field.
func (d *Digest) String(s string) {
	d.buf = append(d.buf[:0], s...)
	d.Bytes(d.buf)
}

// Int adds a number.
func (d *Digest) Int(n int64) {
	binary.LittleEndian.PutUint64(d.len[:], uint64(n))
	d.h.Write(d.len[:])
}

// Digest adds another digest, as [Digest.Bytes] does, without a copy of it on the heap.
func (d *Digest) Digest(sum [32]byte) {
	d.buf = append(d.buf[:0], sum[:]...)
	d.Bytes(d.buf)
}

// Sum is the digest of the fields so far.
func (d *Digest) Sum() (sum [32]byte) {
	d.buf = d.h.Sum(d.buf[:0])
	copy(sum[:], d.buf)
	return sum
}

// TurnSeed derives the seed of one turn of a rollout: 31 bits, which every server takes. It
// resets d.
func (d *Digest) TurnSeed(seed uint64, turn int) uint64 {
	d.Reset("turn seed")
	d.Int(int64(seed))
	d.Int(int64(turn))
	sum := d.Sum()
	return binary.LittleEndian.Uint64(sum[:]) & (1<<31 - 1)
}

package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// newNumber draws the number of a log. Who writes into payloads (a model, a server) cannot
// know it, so that no payload can hold what passes for a frame of this log.
func newNumber() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// gap is a frame that fills a place in the log: a head, zeros, a tail.
type gap struct {
	head, tail []byte
	zeros      int64
}

const (
	leastOldGap = prefixLen + headerFixed + 8
	leastGap    = leastOldGap + headerTail
)

// newGap makes the gap that is n bytes long at place, of form 1 where number is 0; ok is false
// where n is too small or too large for a frame.
func newGap(place Offset, n int64, number uint64) (g gap, ok bool) {
	h := Header{Kind: kindGap, log: number, place: place}
	least := int64(leastGap)
	if n < leastGap || number == 0 {
		h.form, least = oldForm, leastOldGap
		h.synced = place // so that no two of them are the same
	}
	g.zeros = n - least
	if g.zeros < 0 || g.zeros > maxPayload {
		return g, false
	}
	h.raw = uint32(g.zeros)
	b := append([]byte(magic), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(g.zeros))
	b = appendHeader(b, h)
	binary.LittleEndian.PutUint16(b[len(magic):], uint16(len(b)-prefixLen))
	sum := crc32.Checksum(b, castagnoli)
	g.head = binary.LittleEndian.AppendUint32(b, sum)
	var none [4096]byte
	for left := g.zeros; left > 0; left -= int64(len(none)) {
		sum = crc32.Update(sum, castagnoli, none[:min(left, int64(len(none)))])
	}
	g.tail = binary.LittleEndian.AppendUint32(nil, sum)
	return g, true
}

// bridge fills the place at the end of what was read of the last segment, up to the next
// frame of this log that is whole, with a gap. What is not synced reaches the disk in any
// order, so that a power cut may lose a frame and keep the one behind it. more is false
// where there is none.
func (j *Journal) bridge(f File, seg *segment, size int64) (more bool, err error) {
	find := finder{r: f, limit: size}
	head := make([]byte, headBuf)
	for pos := seg.size; ; {
		pos, err = find.next(pos + 1)
		if err != nil || pos >= size {
			return false, err
		}
		fr, err := readFrame(f, seg.base, pos, size, head, false)
		if err == nil {
			_, err = fr.readStored(f, nil)
		}
		if err != nil && !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) {
			return false, err
		}
		if err != nil || fr.form == oldForm || fr.Kind >= kindClose || j.number != 0 && fr.log != j.number {
			continue
		}
		g, ok := newGap(seg.base+Offset(seg.size), pos-seg.size, fr.log)
		if !ok || pos-seg.size < leastGap {
			return false, nil
		}
		j.opt.Log.Warn("the journal lost what was not yet synced; what is behind it is kept", "file", j.name(seg), "from", seg.size, "to", pos)
		b := append(append(g.head, make([]byte, g.zeros)...), g.tail...)
		_, err = f.WriteAt(b, seg.size)
		return err == nil, err
	}
}

package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"hermes/trajectory"
)

// Offset is a place in the log: the bytes before it in all segments.
type Offset int64

// Kind says what a frame holds.
type Kind uint8

// The kinds of frames. Turns are stored model answers; an attempt is a record that is not
// the last word on its key, a final one is; reopen takes a final failure back.
const (
	KindTurn    Kind = 1
	KindAttempt Kind = 2
	KindFinal   Kind = 3
	KindReopen  Kind = 4
	KindCursor  Kind = 5
	kindClose   Kind = 6 // the log was closed here in good order
	kindFooter  Kind = 7
	kindGap     Kind = 8 // fills the place of what was lost
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case KindTurn:
		return "turn"
	case KindAttempt:
		return "attempt"
	case KindFinal:
		return "final"
	case KindReopen:
		return "reopen"
	case KindCursor:
		return "cursor"
	case kindClose:
		return "close"
	case kindFooter:
		return "footer"
	case kindGap:
		return "gap"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Header is what is known of a frame without reading its payload.
type Header struct {
	Kind    Kind
	Key     trajectory.Key
	Group   string
	Attempt int
	Outcome trajectory.Outcome
	seq     uint32 // turns: the place among the answers of the key
	synced  Offset // how much of the log was on disk when the frame was written
	flags   uint8
	raw     uint32 // length of the payload before compression
	form    uint8  // version of the layout; 0 when writing: the newest
	log     uint64 // number of the log, drawn when it was begun; 0 in form 1
	place   Offset // where the frame was written; 0 in form 1
}

const (
	oldForm     = 1 // without number and place; still read
	newForm     = 2
	flagZstd    = 1
	flagMended  = 2                              // of a footer: the segment was repaired, and may be shorter than it was
	prefixLen   = 10                             // magic, header length, payload length
	headerFixed = 3 + 16 + 4 + 4 + 8 + 4 + 1 + 2 // form 1
	headerTail  = 8 + 8                          // what form 2 adds
	anywhere    = Offset(-1)                     // readFrame: the place is not compared
	maxPayload  = 1 << 30                        // bytes of one payload, before and after compression
	magic       = "HJR1"                         // begins each frame
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errFrame says that bytes are no intact frame.
var errFrame = errors.New("no intact frame")

func badFrame(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}

// appendHeader appends the header of a frame, without prefix and checksum.
func appendHeader(b []byte, h Header) []byte {
	h.form = cmp.Or(h.form, newForm)
	b = append(b, h.form, byte(h.Kind), h.flags)
	b = append(b, h.Key[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Attempt))
	b = binary.LittleEndian.AppendUint32(b, h.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.synced))
	b = binary.LittleEndian.AppendUint32(b, h.raw)
	b = append(b, byte(len(h.Outcome)))
	b = append(b, h.Outcome...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h.Group)))
	b = append(b, h.Group...)
	if h.form == oldForm {
		return b
	}
	b = binary.LittleEndian.AppendUint64(b, h.log)
	return binary.LittleEndian.AppendUint64(b, uint64(h.place))
}

// parseHeader reads what appendHeader wrote; group false leaves the group out.
func parseHeader(b []byte, group bool) (Header, error) {
	var h Header
	if len(b) < headerFixed {
		return h, badFrame("header of %d bytes", len(b))
	}
	h.form = b[0]
	switch {
	case h.form == newForm && len(b) >= headerFixed+headerTail:
		tail := b[len(b)-headerTail:]
		h.log, h.place = binary.LittleEndian.Uint64(tail), Offset(binary.LittleEndian.Uint64(tail[8:]))
		b = b[:len(b)-headerTail]
	case h.form == newForm:
		return h, badFrame("header of %d bytes", len(b))
	case h.form != oldForm:
		return h, fmt.Errorf("frame version %d; this program reads %d and %d", b[0], oldForm, newForm)
	}
	h.Kind, h.flags = Kind(b[1]), b[2]
	copy(h.Key[:], b[3:])
	h.Attempt = int(binary.LittleEndian.Uint32(b[19:]))
	h.seq = binary.LittleEndian.Uint32(b[23:])
	h.synced = Offset(binary.LittleEndian.Uint64(b[27:]))
	h.raw = binary.LittleEndian.Uint32(b[35:])
	n := int(b[39])
	rest := b[40:]
	if len(rest) < n+2 {
		return h, badFrame("header of %d bytes", len(b))
	}
	h.Outcome = outcome(rest[:n])
	rest = rest[n:]
	if g := int(binary.LittleEndian.Uint16(rest)); g != len(rest)-2 {
		return h, badFrame("group of %d bytes in %d", g, len(rest)-2)
	}
	if group {
		h.Group = string(rest[2:])
	}
	if h.Kind == 0 || h.Kind > kindGap {
		return h, badFrame("%v", h.Kind)
	}
	return h, nil
}

// outcome saves the copy for the outcomes that exist.
func outcome(b []byte) trajectory.Outcome {
	switch o := trajectory.Outcome(b); o {
	case trajectory.Answered:
		return trajectory.Answered
	case trajectory.Truncated:
		return trajectory.Truncated
	case trajectory.Provider:
		return trajectory.Provider
	default:
		return o
	}
}

// appendFrame appends a whole frame. payload is stored as it is; h.flags tells whether it
// was compressed and h.raw how long it was before.
func appendFrame(b []byte, h Header, payload []byte) ([]byte, error) {
	if len(h.Outcome) > 255 || len(h.Group) > 65535 {
		return b, fmt.Errorf("outcome of %d bytes, group of %d bytes: too long", len(h.Outcome), len(h.Group))
	}
	if len(payload) > maxPayload || h.raw > maxPayload {
		return b, fmt.Errorf("payload of %d bytes; the limit is %d", max(len(payload), int(h.raw)), maxPayload)
	}
	start := len(b)
	b = append(b, magic...)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = appendHeader(b, h)
	binary.LittleEndian.PutUint16(b[start+4:], uint16(len(b)-start-prefixLen))
	if len(b)-start-prefixLen > 65535 {
		return b[:start], fmt.Errorf("header of %d bytes is too long", len(b)-start-prefixLen)
	}
	sum := crc32.Checksum(b[start:], castagnoli)
	b = binary.LittleEndian.AppendUint32(b, sum)
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, crc32.Update(sum, castagnoli, payload)), nil
}

// frame is one frame of a segment, its payload not yet read.
type frame struct {
	Header
	at      int64 // in the segment
	payload int64 // place of the payload in the segment
	length  int   // of the payload as stored
	sum     uint32
	head    []byte // the encoded header; valid until the next read
}

func (f frame) next() int64 { return f.payload + int64(f.length) + 4 }

// readFrame reads the header of the frame at `at` of a segment that begins at base. limit is
// the end of what may be read. A frame that was written for another place is none here.
// io.EOF says that there is nothing; errFrame that there is no intact header.
func readFrame(r io.ReaderAt, base Offset, at, limit int64, buf []byte, group bool) (frame, error) {
	f := frame{at: at}
	if at == limit {
		return f, io.EOF
	}
	n := int(min(int64(len(buf)), limit-at))
	if err := readFull(r, buf[:n], at); err != nil {
		return f, err
	}
	b := buf[:n]
	if n < prefixLen+headerFixed+4 {
		return f, badFrame("%d bytes left", n)
	}
	if string(b[:4]) != magic {
		return f, badFrame("starts with %x", b[:4])
	}
	head := int(binary.LittleEndian.Uint16(b[4:]))
	f.length = int(binary.LittleEndian.Uint32(b[6:]))
	end := prefixLen + head
	if end+4 > len(b) {
		if int64(end+4) > limit-at {
			return f, badFrame("header of %d bytes", head)
		}
		return readFrame(r, base, at, limit, make([]byte, end+4), group)
	}
	f.sum = crc32.Checksum(b[:end], castagnoli)
	if f.sum != binary.LittleEndian.Uint32(b[end:]) {
		return f, badFrame("checksum of the header")
	}
	var err error
	f.Header, err = parseHeader(b[prefixLen:end], group)
	if err != nil {
		return f, err
	}
	if base != anywhere && f.form != oldForm && f.place != base+Offset(at) {
		return f, badFrame("it belongs to offset %d, and lies at %d", f.place, base+Offset(at))
	}
	f.head = b[prefixLen:end]
	f.payload = at + int64(end) + 4
	if f.length > maxPayload || f.next() > limit {
		return f, badFrame("payload of %d bytes in %d", f.length, limit-f.payload)
	}
	return f, nil
}

// readStored reads and checks the payload as it is stored, into buf where it fits.
func (f frame) readStored(r io.ReaderAt, buf []byte) ([]byte, error) {
	if cap(buf) < f.length+4 {
		buf = make([]byte, f.length+4)
	}
	b := buf[:f.length+4]
	if err := readFull(r, b, f.payload); err != nil {
		return nil, err
	}
	data := b[:f.length]
	if crc32.Update(f.sum, castagnoli, data) != binary.LittleEndian.Uint32(b[f.length:]) {
		return nil, badFrame("checksum of the payload")
	}
	return data, nil
}

package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segment is one file of the log; its name is its base in hexadecimal digits.
type segment struct {
	base   Offset
	size   int64 // bytes; of the last segment: up to the end of the log
	sealed bool
	mended bool   // it was repaired, and may end before the next one begins
	heads  []byte // the last segment: rows for its footer, see appendRow
	last   int64  // place of the last row, for the differences in heads
	next   Offset // where the next segment begins; 0: there is none
}

const (
	suffix     = ".log"
	trailer    = "HJT1"
	trailerLen = 16 // trailer, place of the footer, CRC
	headBuf    = 512
)

func segmentName(dir string, base Offset) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", uint64(base), suffix))
}

func parseSegmentName(name string) (Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 63)
	return Offset(n), err == nil
}

// appendRow appends one header to the content of a footer: the distance from the row
// before it, the header's length, the header.
func (s *segment) appendRow(at int64, head []byte) {
	s.heads = binary.AppendUvarint(s.heads, uint64(at-s.last))
	s.heads = binary.AppendUvarint(s.heads, uint64(len(head)))
	s.heads = append(s.heads, head...)
	s.last = at
}

// eachRow calls f for every header of a footer.
func eachRow(b []byte, f func(at int64, h Header) error) error {
	var at int64
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 || d > 1<<62 {
			return badFrame("footer: distance")
		}
		b = b[n:]
		l, n := binary.Uvarint(b)
		if n <= 0 || l > uint64(len(b)-n) {
			return badFrame("footer: header of %d bytes", l)
		}
		at += int64(d)
		h, err := parseHeader(b[n:n+int(l)], false)
		if err != nil {
			return err
		}
		if err := f(at, h); err != nil {
			return err
		}
		b = b[n+int(l):]
	}
	return nil
}

// footer is the end of a sealed segment: a frame of headers and a trailer that finds it.
func (s *segment) footer(c codec, log uint64, more uint8) ([]byte, error) {
	stored, flags := c.pack(s.heads, nil)
	h := Header{Kind: kindFooter, flags: flags | more, raw: uint32(len(s.heads)), synced: s.base + Offset(s.size), log: log, place: s.base + Offset(s.size)}
	if log == 0 { // of a log of which no number is left
		h.form = oldForm
	}
	b, err := appendFrame(nil, h, stored)
	if err != nil {
		return nil, err
	}
	start := len(b)
	b = append(b, trailer...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.size))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// findFooter returns the footer's frame of a segment of size bytes, ok false where there is none.
func findFooter(r io.ReaderAt, base Offset, size int64) (f frame, ok bool, err error) {
	if size < trailerLen {
		return f, false, nil
	}
	var b [trailerLen]byte
	if err := readFull(r, b[:], size-trailerLen); err != nil {
		return f, false, err
	}
	at := int64(binary.LittleEndian.Uint64(b[4:]))
	if string(b[:4]) != trailer || crc32.Checksum(b[:12], castagnoli) != binary.LittleEndian.Uint32(b[12:]) || at < 0 || at > size {
		return f, false, nil
	}
	f, err = readFrame(r, base, at, size-trailerLen, make([]byte, headBuf), false)
	if err != nil || f.Kind != kindFooter || f.next() != size-trailerLen {
		return f, false, nil // the trailer's bytes may be in a payload by chance
	}
	return f, true, nil
}

// scan reads the frames of [from, limit) of the segment at base and calls f for each, payloads
// checked. It returns the place of the first byte that belongs to no intact frame, and why.
func scan(r io.ReaderAt, base Offset, from, limit int64, f func(frame) error) (end int64, broken error, err error) {
	head := make([]byte, headBuf)
	var buf []byte
	for at := from; ; {
		fr, err := readFrame(r, base, at, limit, head, false)
		if errors.Is(err, io.EOF) {
			return at, nil, nil
		}
		if err == nil && fr.Kind != kindFooter {
			if cap(buf) < fr.length+4 {
				buf = make([]byte, 2*fr.length+4)
			}
			_, err = fr.readStored(r, buf)
		}
		if errors.Is(err, errFrame) {
			return at, err, nil
		}
		if err != nil {
			return at, nil, err
		}
		if fr.Kind == kindFooter {
			return at, nil, nil
		}
		if err := f(fr); err != nil {
			return at, nil, err
		}
		at = fr.next()
	}
}

// syncedBehind searches (at, limit) for an intact header that says that the log was
// already on disk beyond the place at, so that damage there is no torn tail.
func syncedBehind(r io.ReaderAt, base Offset, at, limit int64) (bool, error) {
	head := make([]byte, headBuf)
	find := finder{r: r, limit: limit}
	for {
		pos, err := find.next(at + 1)
		if err != nil || pos == limit {
			return false, err
		}
		f, err := readFrame(r, base, pos, limit, head, false)
		if err == nil && f.synced > base+Offset(at) {
			return true, nil
		}
		if err != nil && !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) {
			return false, err
		}
		at = pos
	}
}

// finder looks for places at which a frame may begin.
type finder struct {
	r     io.ReaderAt
	limit int64

	buf []byte // of the file from at on
	at  int64
}

// next returns the first such place that is not before from, or limit.
func (f *finder) next(from int64) (int64, error) {
	for from < f.limit {
		if from < f.at || from >= f.at+int64(len(f.buf)) {
			window := int(min(1<<20, f.limit-from))
			f.buf = slices.Grow(f.buf[:0], window)[:window]
			f.at = from
			if err := readFull(f.r, f.buf, from); err != nil {
				return 0, err
			}
		}
		if i := bytes.Index(f.buf[from-f.at:], []byte(magic)); i >= 0 {
			return from + int64(i), nil
		}
		end := f.at + int64(len(f.buf))
		if end == f.limit {
			break
		}
		from = max(from+1, end-int64(len(magic))+1) // it may lie across the border
	}
	return f.limit, nil
}

// after is where the log goes on behind the segment.
func (s *segment) after() Offset {
	if s.next > 0 {
		return s.next
	}
	return s.base + Offset(s.size)
}

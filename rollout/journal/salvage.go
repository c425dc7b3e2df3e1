package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"hermes/trajectory"
)

// Loss is a frame, or a place of unknown content, that damage took out of a log.
type Loss struct {
	File string
	From int64 // bytes of the file as it was written, [From, To); To 0: up to the end
	To   int64
	At   Offset         // where the frame was in the log
	Kind Kind           // 0: nothing of it can be read
	Key  trajectory.Key // of a turn, attempt, final or reopen
}

// found is a frame that was found in a segment; whole says that its payload holds, too.
type found struct {
	frame
	whole bool
	sum   uint32 // the last checksum: two frames of one segment with the same are the same
	pos   int64  // where the frame belongs in the segment
}

// survey is a segment that was searched for frames at every place.
type survey struct {
	name   string
	base   Offset
	next   Offset // of the next segment; 0: there is none
	size   int64  // of the file as it is
	frames []found
	foot   *found
	rows   []row // of the footer, where it can be read

	trailer bool // the end of the file finds the footer

	keep   []found // whole frames of this log, in order
	pieces []piece // the segment without its damage; nil: it has none
	length int64
	lost   []Loss
}

type row struct {
	at int64
	Header
}

// lookOver searches all segments of a log and plans what they are without their damage.
func lookOver(fsys FS, dir string, c codec) ([]*survey, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var all []*survey
	for _, n := range names {
		if base, ok := parseSegmentName(n); ok {
			all = append(all, &survey{name: filepath.Join(dir, n), base: base})
		}
	}
	slices.SortFunc(all, func(a, b *survey) int { return cmp.Compare(a.base, b.base) })
	if len(all) > 0 && all[0].base != 0 {
		all = slices.Insert(all, 0, &survey{name: segmentName(dir, 0)})
	}
	for i, s := range all {
		if i > 0 {
			all[i-1].next = s.base
		}
		if err := s.search(fsys, c); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	number := numberOf(all)
	for _, s := range all {
		if err := s.plan(c, number); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}

// search finds the frames of a segment. Behind a frame that is whole the next one is looked
// for at its end, behind anything else at every byte.
func (s *survey) search(fsys FS, c codec) error {
	f, err := fsys.Open(s.name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a segment is missing
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s.size, err = f.Size()
	if err != nil {
		return err
	}
	_, s.trailer, err = findFooter(f, anywhere, s.size)
	if err != nil {
		return err
	}
	head, find := make([]byte, headBuf), finder{r: f, limit: s.size}
	chained := true // all before pos is whole
	for pos := int64(0); pos < s.size; {
		fr, err := readFrame(f, anywhere, pos, s.size, head, true)
		if err != nil && !errors.Is(err, errFrame) && chained {
			return err // a newer program's frame, or the disk
		}
		if err == nil {
			x, payload, err := s.judge(f, fr, c)
			if err != nil {
				return err
			}
			s.frames = append(s.frames, x)
			if x.whole {
				pos = fr.next()
				if fr.Kind == kindFooter {
					s.footer(x, payload)
				}
				continue
			}
		}
		chained = false
		pos, err = find.next(pos + 1)
		if err != nil {
			return err
		}
	}
	return nil
}

// judge reads the payload of a frame. A record must be one, and of the key of its header.
func (s *survey) judge(f File, fr frame, c codec) (found, []byte, error) {
	x := found{frame: fr, pos: fr.at}
	x.head = bytes.Clone(fr.head) // lent until the next read
	payload, err := c.read(f, fr)
	if err == nil && (fr.Kind == KindFinal || fr.Kind == KindAttempt) {
		var r *trajectory.Record
		r, err = decodeRecord(payload)
		if err == nil && r.Key != fr.Key {
			err = badFrame("record of %s", r.Key)
		}
	}
	if err != nil && !errors.Is(err, errFrame) {
		return x, nil, err
	}
	x.whole = err == nil
	if x.whole {
		var end [4]byte
		if err := readFull(f, end[:], fr.next()-4); err != nil {
			return x, nil, err
		}
		x.sum = uint32(end[0]) | uint32(end[1])<<8 | uint32(end[2])<<16 | uint32(end[3])<<24
	}
	return x, payload, nil
}

// footer keeps what a footer says of the frames.
func (s *survey) footer(x found, payload []byte) {
	var rows []row
	err := eachRow(payload, func(at int64, h Header) error {
		rows = append(rows, row{at, h})
		return nil
	})
	if err == nil && (x.form == oldForm || x.place >= s.base) {
		s.foot, s.rows = &x, rows
	}
}

// numberOf finds the number of a log. A file begins with a frame, never within a payload, so
// that the first frames name it; where all of them are damaged, most frames do.
func numberOf(all []*survey) uint64 {
	votes := map[uint64]int{}
	for _, s := range all {
		for i, x := range s.frames {
			if !x.whole || x.form == oldForm {
				continue
			}
			if i == 0 && x.at == 0 && x.place == s.base {
				return x.log
			}
			votes[x.log]++
		}
	}
	best := uint64(0)
	for n, v := range votes {
		if v > votes[best] || v == votes[best] && n < best {
			best = n
		}
	}
	return best
}

// plan decides where the frames belong, and what lies between them.
func (s *survey) plan(c codec, number uint64) error {
	if s.foot != nil && s.foot.form != oldForm && s.foot.log != number {
		s.foot, s.rows = nil, nil // a payload's
	}
	limit := int64(1<<62) - int64(s.base)
	if s.next > 0 {
		limit = int64(s.next - s.base)
	}
	var old, placed []found
	seen := map[uint32][]byte{}
	for _, x := range s.frames {
		switch {
		case !x.whole || x.Kind == kindFooter:
		case x.form == oldForm:
			if head, twice := seen[x.sum]; !twice || !bytes.Equal(head, x.head) { // a page that was written twice
				seen[x.sum] = x.head
				old = append(old, x)
			}
		case x.log == number && x.place >= s.base && int64(x.place-s.base) < limit:
			x.pos = int64(x.place - s.base)
			placed = append(placed, x)
		}
	}
	slices.SortStableFunc(placed, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(min(1, abs(a.at-a.pos)), min(1, abs(b.at-b.pos))))
	})
	before := limit
	if len(placed) > 0 {
		before = placed[0].pos
	}
	end := int64(0)
	for _, x := range append(settle(old, before), placed...) {
		if x.pos >= end {
			s.keep, end = append(s.keep, x), x.pos+x.next()-x.at
		}
	}
	if s.sound(end) {
		return nil
	}
	return s.mend(c, number)
}

func abs(n int64) int64 { return max(n, -n) }

// settle places frames that do not say where they belong: where they were found, as far as a
// gap fits before them, and one behind the other where that is too far behind.
func settle(list []found, limit int64) []found {
	for _, loose := range []bool{true, false} {
		end := int64(0)
		for i := range list {
			x := &list[i]
			x.pos = end
			if loose && x.at >= end+leastOldGap {
				x.pos = x.at
			}
			end = x.pos + x.next() - x.at
		}
		if end == limit || end+leastOldGap <= limit {
			break
		}
	}
	return list
}

// sound reports whether the file is what the frames make it, without any damage.
func (s *survey) sound(end int64) bool {
	at := int64(0)
	for _, x := range s.keep {
		if x.at != at || x.pos != at {
			return false
		}
		at = x.next()
	}
	switch {
	case s.foot != nil && s.foot.at == end && (s.foot.form == oldForm || s.foot.place == s.base+Offset(end)):
		whole := s.foot.next()+trailerLen == s.size && s.trailer
		return whole && (s.next == 0 || s.base+Offset(s.size) == s.next || s.foot.flags&flagMended != 0)
	case s.next > 0:
		return false
	}
	return end == s.size
}

// mend lays the segment out: the frames at their places, gaps between them, and behind all
// segments but the last a footer. It also lists what is lost.
func (s *survey) mend(c codec, number uint64) error {
	seg := segment{base: s.base}
	end := int64(0)
	for _, x := range s.keep {
		if x.pos > end {
			s.miss(end, x.pos)
			like := number
			if x.form == oldForm {
				like = 0
			}
			if err := s.fill(end, x.pos, like); err != nil {
				return err
			}
		}
		n := x.next() - x.at
		s.pieces = append(s.pieces, piece{at: x.pos, n: n, from: x.at})
		if x.Kind != kindGap {
			seg.appendRow(x.pos, x.head)
		}
		end = x.pos + n
	}
	s.length = end
	s.missEnd(end)
	if s.next == 0 {
		if s.pieces == nil {
			s.pieces = []piece{}
		}
		return nil
	}
	seg.size = end
	b, err := seg.footer(c, number, flagMended)
	if err != nil {
		return err
	}
	s.pieces = append(s.pieces, piece{at: end, n: int64(len(b)), text: b})
	s.length += int64(len(b))
	return nil
}

// fill puts gaps into [from, to).
func (s *survey) fill(from, to int64, number uint64) error {
	for from < to {
		n := min(to-from, maxPayload)
		if to-from > n {
			n -= leastGap // what is left is long enough
		}
		g, ok := newGap(s.base+Offset(from), n, number)
		if !ok {
			return badFrame("%d bytes at %d are too few for a gap", n, from)
		}
		head, tail := int64(len(g.head)), int64(len(g.tail))
		s.pieces = append(s.pieces, piece{at: from, n: head, text: g.head}, piece{at: from + head, n: g.zeros, zero: true},
			piece{at: from + n - tail, n: tail, text: g.tail})
		from += n
	}
	return nil
}

// miss lists what was in [from, to): frames that the footer lists, else those whose
// header can be read, and what is known of neither.
func (s *survey) miss(from, to int64) {
	var known int64
	tell := func(at, n int64, h Header) {
		known += n
		if h.Kind != kindClose && h.Kind != kindGap && h.Kind != kindFooter {
			s.lost = append(s.lost, Loss{File: s.name, From: at, To: at + n, At: s.base + Offset(at), Kind: h.Kind, Key: h.Key})
		}
	}
	for i, r := range s.rows {
		if r.at < from || r.at >= to {
			continue
		}
		next := to
		if i+1 < len(s.rows) {
			next = min(to, s.rows[i+1].at)
		}
		tell(r.at, next-r.at, r.Header)
	}
	if known == 0 {
		for _, x := range s.frames {
			at := x.at
			if x.form != oldForm {
				at = int64(x.place - s.base)
			}
			if !x.whole && at >= from && at < to {
				tell(at, min(to, at+x.next()-x.at)-at, x.Header)
			}
		}
	}
	if known < to-from {
		s.lost = append(s.lost, Loss{File: s.name, From: from, To: to, At: s.base + Offset(from)})
	}
}

// missEnd lists what was behind the last frame.
func (s *survey) missEnd(end int64) {
	to := int64(0)
	for _, r := range s.rows {
		if r.at >= end {
			to = s.foot.at
			if s.foot.form != oldForm {
				to = int64(s.foot.place - s.base)
			}
		}
	}
	if s.foot == nil {
		to = s.size
		if s.next > 0 {
			to = int64(s.next - s.base)
		}
		for _, x := range s.frames {
			if !x.whole && x.Kind == kindFooter && x.form != oldForm {
				to = int64(x.place - s.base)
			}
		}
	}
	if to > end {
		s.miss(end, to)
	}
}

// piece is a part of a mended segment: bytes of the file, a text, or zeros.
type piece struct {
	at   int64 // in the mended segment
	n    int64
	from int64 // in the file
	text []byte
	zero bool
}

// mendedFile is a segment without its damage, for reading.
type mendedFile struct {
	s    *survey
	file File // nil: it is missing
}

func (m mendedFile) ReadAt(b []byte, at int64) (n int, err error) {
	i, _ := slices.BinarySearchFunc(m.s.pieces, at, func(p piece, at int64) int {
		if p.at+p.n <= at {
			return -1
		}
		return 1
	})
	for _, p := range m.s.pieces[i:] {
		if n == len(b) {
			break
		}
		skip := at + int64(n) - p.at
		part := b[n:min(int64(len(b)), int64(n)+p.n-skip)]
		switch {
		case p.zero:
			clear(part)
		case p.text != nil:
			copy(part, p.text[skip:])
		default:
			if err := readFull(m.file, part, p.from+skip); err != nil {
				return n, err
			}
		}
		n += len(part)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m mendedFile) Size() (int64, error)             { return m.s.length, nil }
func (mendedFile) WriteAt([]byte, int64) (int, error) { return 0, ErrReadOnly }
func (mendedFile) Truncate(int64) error               { return ErrReadOnly }
func (mendedFile) Sync() error                        { return ErrReadOnly }
func (m mendedFile) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// mendedFS shows the segments of a log without their damage.
type mendedFS struct {
	FS
	dir   string
	files map[string]*survey
}

func salvaged(fsys FS, dir string, c codec) (FS, error) {
	all, err := lookOver(fsys, dir, c)
	if err != nil {
		return nil, err
	}
	m := mendedFS{fsys, dir, map[string]*survey{}}
	for _, s := range all {
		if s.pieces != nil {
			m.files[s.name] = s
		}
	}
	return m, nil
}

func (m mendedFS) Open(name string, write bool) (File, error) {
	s := m.files[name]
	if s == nil {
		return m.FS.Open(name, write)
	}
	f, err := m.FS.Open(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return mendedFile{s, nil}, nil
	}
	return mendedFile{s, f}, err
}

func (m mendedFS) List(dir string) ([]string, error) {
	names, err := m.FS.List(dir)
	if first := segmentName(m.dir, 0); err == nil && dir == m.dir && m.files[first] != nil && !slices.Contains(names, filepath.Base(first)) {
		names = append(names, filepath.Base(first))
	}
	return names, err
}

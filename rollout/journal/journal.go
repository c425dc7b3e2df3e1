package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"hermes/trajectory"
)

// Options tune a [Journal]. The zero value is usable.
type Options struct {
	SegmentSize int64        // bytes after which a segment is sealed; 0 means 256 MB
	ReadOnly    bool         // look on: nothing is cut or written, another process may write
	Salvage     bool         // with ReadOnly: read what [Repair] would leave
	FS          FS           // nil means the real file system
	Log         *slog.Logger // nil means silent
}

// Errors that callers act on.
var (
	ErrDone     = errors.New("the key has a final record already")
	ErrClosed   = errors.New("the journal is closed")
	ErrReadOnly = errors.New("the journal was opened for reading")
)

// CorruptError is damage to what was once safely on disk.
type CorruptError struct {
	File   string
	At     int64 // bytes from the file's beginning
	Offset Offset
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal %s is damaged at byte %d (offset %d): %v; 'hermes runs repair' keeps every record that is whole", e.File, e.At, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Stats count what a journal holds.
type Stats struct {
	Bytes    int64 // of the log, footers included
	Segments int
	Turns    int // stored answers, of finished samples too
	Attempts int // records that were not the last word on their key
	Finals   int
	Reopens  int
	Done     int   // keys with a final record in force
	Closed   bool  // the log was closed in good order
	Torn     int64 // bytes that were cut from the end, or are left out when only reading
}

// Journal is an open log.
type Journal struct {
	dir     string
	fs      FS
	opt     Options
	codec   codec
	scratch scratches
	recent  recent

	// sync guards the disk: who holds it makes everything written so far durable.
	// It is taken before mu.
	sync chan struct{}

	mu       sync.Mutex
	file     File          // the last segment
	number   uint64        // of this log, in each of its frames; 0: none is known
	segs     []segment     // in order
	synced   Offset        // the log is on disk up to here
	change   chan struct{} // closed when synced grows
	broken   error         // the disk failed: nothing can be promised any more
	closed   bool
	clean    bool // the last frame is a close frame
	keys     map[trajectory.Key]state
	turns    map[trajectory.Key][]turnRef // of keys that are not done
	outcomes []trajectory.Outcome
	cursor   Offset // of the last cursor; -1: none
	stats    Stats
}

// state is the last word on a key.
type state struct {
	at      Offset
	attempt uint32
	outcome uint8 // in Journal.outcomes
	kind    Kind
}

type turnRef struct {
	at      Offset
	attempt uint32
}

// Open opens the log in dir, which is made where it does not exist. A torn tail is cut and
// logged; damage before it is a *CorruptError.
func Open(dir string, o Options) (*Journal, error) {
	if o.SegmentSize < 0 {
		return nil, fmt.Errorf("journal %s: segment size %d is negative", dir, o.SegmentSize)
	}
	o.SegmentSize = cmp.Or(o.SegmentSize, 256<<20)
	if o.FS == nil {
		o.FS = OS{}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	if o.Salvage {
		if !o.ReadOnly {
			return nil, fmt.Errorf("journal %s: salvaging is for reading", dir)
		}
		o.FS, err = salvaged(o.FS, dir, c)
		if err != nil {
			return nil, fmt.Errorf("salvage journal %s: %w", dir, err)
		}
	}
	j := &Journal{
		dir: dir, fs: o.FS, opt: o, codec: c, sync: make(chan struct{}, 1), cursor: -1, change: make(chan struct{}),
		keys: map[trajectory.Key]state{}, turns: map[trajectory.Key][]turnRef{},
	}
	err = j.open()
	if j.number == 0 {
		j.number = newNumber()
	}
	if err != nil {
		if j.file != nil {
			err = errors.Join(err, j.file.Close())
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, explain(err))
	}
	return j, nil
}

func (j *Journal) open() error {
	names, err := j.fs.List(j.dir)
	if errors.Is(err, fs.ErrNotExist) && !j.opt.ReadOnly {
		if err = j.fs.MkdirAll(j.dir); err == nil {
			err = j.fs.SyncDir(filepath.Dir(j.dir))
		}
	}
	if err != nil {
		return err
	}
	var bases []Offset
	for _, n := range names {
		if base, ok := parseSegmentName(n); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	if len(bases) == 0 {
		if j.opt.ReadOnly {
			return nil
		}
		return j.startSegment(0)
	}
	for i, base := range bases {
		if want := j.end(); base != want && (i == 0 || !j.segs[i-1].mended) {
			return fmt.Errorf("%s: the segment before it ends at offset %d: a segment is missing",
				segmentName(j.dir, base), want)
		}
		if i > 0 {
			j.segs[i-1].next = base
		}
		if err := j.load(base, i == len(bases)-1); err != nil {
			return err
		}
	}
	return nil
}

// member objects to frames of another log.
func (j *Journal) member(h Header) error {
	if j.number == 0 {
		j.number = h.log
	}
	if h.form != oldForm && h.log != j.number {
		return badFrame("it is a frame of another log")
	}
	return nil
}

// end is the offset after the last frame.
func (j *Journal) end() Offset {
	if len(j.segs) == 0 {
		return 0
	}
	s := &j.segs[len(j.segs)-1]
	return s.base + Offset(s.size)
}

func (j *Journal) name(s *segment) string { return segmentName(j.dir, s.base) }

// load reads the segment that begins at base into the index.
func (j *Journal) load(base Offset, last bool) error {
	name := segmentName(j.dir, base)
	f, err := j.fs.Open(name, last && !j.opt.ReadOnly)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	size, err := f.Size()
	if err != nil {
		return err
	}
	foot, sealed, err := findFooter(f, base, size)
	if err != nil {
		return err
	}
	j.segs = append(j.segs, segment{base: base, size: size, sealed: sealed, mended: sealed && foot.flags&flagMended != 0})
	seg := &j.segs[len(j.segs)-1]
	if sealed {
		return j.loadSealed(f, seg, foot, last)
	}
	seg.size = 0
	torn, err := j.loadOpen(f, seg, size)
	for err == nil && torn != nil && last && !j.opt.ReadOnly {
		var more bool
		more, err = j.bridge(f, seg, size)
		if !more {
			break
		}
		torn, err = j.loadOpen(f, seg, size)
	}
	if err != nil {
		return err
	}
	if !last {
		if torn == nil {
			torn = badFrame("the segment has no footer")
		}
		return j.corrupt(seg, seg.size, torn)
	}
	j.stats.Torn = size - seg.size
	if j.opt.ReadOnly {
		j.synced = j.end()
		return nil
	}
	keep, j.file = true, f
	if j.stats.Torn > 0 {
		j.opt.Log.Warn("cut the torn end of the journal", "file", name, "bytes", j.stats.Torn, "at", seg.size, "why", torn)
		if err := f.Truncate(seg.size); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// The directory too: the segment's entry may have been made by a process that died.
	if err := j.fs.SyncDir(j.dir); err != nil {
		return err
	}
	j.synced = j.end()
	return nil
}

func (j *Journal) loadSealed(f File, seg *segment, foot frame, last bool) error {
	rows, err := j.codec.read(f, foot)
	if err == nil {
		err = eachRow(rows, func(at int64, h Header) error {
			if err := j.member(h); err != nil {
				return err
			}
			if h.form != oldForm && h.place != seg.base+Offset(at) {
				return badFrame("the footer names offset %d for %d", h.place, seg.base+Offset(at))
			}
			j.learn(seg.base+Offset(at), h)
			return nil
		})
	}
	if errors.Is(err, errFrame) {
		return j.corrupt(seg, foot.at, err)
	}
	if err != nil {
		return err
	}
	if last && !j.opt.ReadOnly {
		// The footer may be the unsynced work of a process that was killed.
		if err := f.Sync(); err != nil {
			return err
		}
		if err := j.startSegment(j.end()); err != nil {
			return err
		}
	}
	j.synced = j.end()
	return nil
}

// loadOpen reads a segment without footer from seg.size on, up to the first place that
// is no intact frame; why not is returned as torn.
func (j *Journal) loadOpen(f File, seg *segment, size int64) (torn, err error) {
	end, torn, err := scan(f, seg.base, seg.size, size, func(fr frame) error {
		if err := j.member(fr.Header); err != nil {
			return err
		}
		if fr.Kind != kindGap {
			j.learn(seg.base+Offset(fr.at), fr.Header)
			seg.appendRow(fr.at, fr.head)
		}
		seg.size = fr.next()
		j.clean = fr.Kind == kindClose
		return nil
	})
	if errors.Is(err, errFrame) {
		err = j.corrupt(seg, seg.size, err)
	}
	if err != nil {
		return nil, err
	}
	seg.size = end
	if end < size {
		behind, err := syncedBehind(f, seg.base, end, size)
		if err != nil {
			return nil, err
		}
		if behind {
			return nil, j.corrupt(seg, end, cmp.Or(torn, errFrame))
		}
	}
	return torn, nil
}

func (j *Journal) corrupt(s *segment, at int64, why error) error {
	return &CorruptError{File: j.name(s), At: at, Offset: s.base + Offset(at), Err: why}
}

// learn puts one frame into the index.
func (j *Journal) learn(at Offset, h Header) {
	switch h.Kind {
	case KindTurn:
		j.stats.Turns++
		if j.keys[h.Key].kind == KindFinal {
			return
		}
		j.turns[h.Key] = replaced(j.turns[h.Key], at, h)
	case KindAttempt, KindFinal, KindReopen:
		if j.keys[h.Key].kind == KindFinal {
			j.stats.Done--
		}
		switch h.Kind {
		case KindAttempt:
			j.stats.Attempts++
		case KindFinal:
			j.stats.Finals++
			j.stats.Done++
			delete(j.turns, h.Key)
		case KindReopen:
			j.stats.Reopens++
		}
		j.keys[h.Key] = state{at: at, attempt: uint32(h.Attempt), outcome: j.intern(h.Outcome), kind: h.Kind}
	case KindCursor:
		j.cursor = at
	}
}

func (j *Journal) intern(o trajectory.Outcome) uint8 {
	i := slices.Index(j.outcomes, o)
	if i < 0 {
		j.outcomes = append(j.outcomes, o)
		i = len(j.outcomes) - 1
	}
	return uint8(min(i, 255))
}

// startSegment begins a new last segment. The caller holds mu or is Open.
func (j *Journal) startSegment(base Offset) error {
	f, err := j.fs.Create(segmentName(j.dir, base))
	if err != nil {
		return err
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	j.file = f
	j.segs = append(j.segs, segment{base: base})
	return nil
}

// explain adds a sentence for people to the errors that a disk gives.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk is full: %w", err)
	case errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk quota is used up: %w", err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the directory cannot be written: %w", err)
	}
	return err
}

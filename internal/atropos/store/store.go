// Package store keeps groups on disk: their bytes in segments, what happens to them in a
// log of small events. Nothing of a group stays in memory, so the queue may be larger than
// it; what was written lately is read back from the page cache.
//
// The order of writing makes it safe against crashes: the bytes of a group are in its
// segment before the event that names them is logged, and both are on disk before [Store.Wait]
// returns. Whoever waits at the same time shares one fsync. A segment whose groups
// are all freed is written over or removed, after the events that freed them are on disk.
//
// A Store is safe for concurrent use. Its lock is held for assignments alone: files are
// made, removed, written and synced outside of it, so that [Store.Log], [Store.Drop],
// [Store.Usage] and the like return at once whatever the disk does. One process has a
// directory at a time.
package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Pos is where the bytes of a group lie.
type Pos struct {
	Segment uint32
	Sum     uint32 // CRC-32C of the bytes
	Offset  int64
	Size    int64
}

// ErrDamaged says that bytes do not have the checksum that they were written with.
var ErrDamaged = errors.New("damaged on disk")

// Options tune a [Store]. The zero value is usable.
type Options struct {
	Segment int64                // bytes of a segment; 0 means 64 MiB
	Sync    func(*os.File) error // makes a file's bytes durable; nil means fsync
}

// Store is an open directory.
type Store struct {
	dir  string
	opt  Options
	lock *os.File

	mu      sync.Mutex
	wake    *sync.Cond // the committer waits for events, its turn or the end
	synced  *sync.Cond // others wait for their event
	keep    *sync.Cond // the keeper waits for work or the end
	stocked *sync.Cond // writers wait for a segment
	active  *segment
	spare   *segment // the next to be active
	live    map[uint32]*segment
	trash   []*segment // freed, not written over or removed yet
	next    uint32
	log     *os.File
	size    int64  // of the log
	end     int64  // of the log, with the events that are not written yet
	frames  []byte // those
	freed   []Pos  // by them
	begun   uint64 // serial of the newest event
	ended   uint64 // serial of the newest one on disk
	busy    bool   // somebody writes to the log
	broken  error
	closed  bool
	done    sync.WaitGroup // the committer and the keeper
	syncs   int64
	writers sync.Pool // *writer
}

// segment is a file of groups.
type segment struct {
	id    uint32
	file  *os.File
	end   int64
	live  int // groups that are not freed
	dirty bool
}

func (o Options) segment() int64 {
	if o.Segment <= 0 {
		return 64 << 20
	}
	return o.Segment
}

func (s *Store) name(id uint32) string { return filepath.Join(s.dir, fmt.Sprintf("%08d.groups", id)) }

func table() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Put writes the bytes of a group, one part after the other. They are kept once an event
// names them; until then, and when no event does, they are garbage of their segment.
func (s *Store) Put(parts ...[]byte) (Pos, error) {
	var p Pos
	tab := table()
	for _, b := range parts {
		p.Sum, p.Size = crc32.Update(p.Sum, tab, b), p.Size+int64(len(b))
	}
	s.mu.Lock()
	g, err := s.place(p.Size)
	if err != nil {
		s.mu.Unlock()
		return p, err
	}
	p.Segment, p.Offset = g.id, g.end
	g.end += p.Size
	g.live++
	s.mu.Unlock()
	if err := s.write(g.file, p.Offset, parts); err != nil {
		s.Drop(p)
		return p, fmt.Errorf("write %d bytes of a group: %w", p.Size, err)
	}
	s.mu.Lock()
	g.dirty = true
	s.mu.Unlock()
	return p, nil
}

// place is the segment that size more bytes go to. The lock is held, but not while a new
// segment is waited for.
func (s *Store) place(size int64) (*segment, error) {
	for {
		if s.broken != nil || s.closed {
			return nil, s.down()
		}
		if s.active != nil && (s.active.end == 0 || s.active.end+size <= s.opt.segment()) {
			return s.active, nil
		}
		if s.spare == nil {
			s.stocked.Wait()
			continue
		}
		old := s.active
		s.active, s.spare = s.spare, nil
		s.live[s.active.id] = s.active
		if old != nil && old.live == 0 {
			s.retire(old)
		}
		s.keep.Signal()
	}
}

// gathered is how many bytes of small parts are written at once; larger parts are written
// from where they lie.
const gathered = 64 << 10

// writer gathers small parts.
type writer struct{ buf []byte }

func (s *Store) write(f *os.File, at int64, parts [][]byte) error {
	w, _ := s.writers.Get().(*writer)
	if w == nil {
		w = &writer{make([]byte, 0, gathered)}
	}
	defer s.writers.Put(w)
	put := func(b []byte) error {
		_, err := f.WriteAt(b, at)
		at += int64(len(b))
		return err
	}
	w.buf = w.buf[:0]
	for _, b := range parts {
		if len(w.buf)+len(b) > gathered && len(w.buf) > 0 {
			if err := put(w.buf); err != nil {
				return err
			}
			w.buf = w.buf[:0]
		}
		if len(b) < gathered {
			w.buf = append(w.buf, b...)
		} else if err := put(b); err != nil {
			return err
		}
	}
	if len(w.buf) == 0 {
		return nil
	}
	return put(w.buf)
}

func (s *Store) down() error {
	if s.broken != nil {
		return s.broken
	}
	return errors.New("the store is closed")
}

// Drop frees bytes that no event has named.
func (s *Store) Drop(p Pos) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(p)
}

// Keep counts one more use of the bytes at p; each wants its own free.
func (s *Store) Keep(p Pos) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.live[p.Segment]; g != nil {
		g.live++
	}
}

func (s *Store) free(p Pos) {
	g := s.live[p.Segment]
	if g == nil {
		return
	}
	g.live--
	if g.live == 0 && g != s.active {
		s.retire(g)
	}
}

// block is how much is read at once, in bytes.
const block = 256 << 10

// Copy writes the bytes at p to w. The last of them are written only when all have the
// checksum of the group: what has arrived whole is whole. ErrDamaged otherwise.
func (s *Store) Copy(w io.Writer, p Pos, buf []byte) error {
	s.mu.Lock()
	g := s.live[p.Segment]
	if g != nil {
		g.live++ // its file must not go while it is read
	}
	s.mu.Unlock()
	if g == nil {
		return fmt.Errorf("segment %d is gone: %w", p.Segment, ErrDamaged)
	}
	defer s.Drop(p)
	if len(buf) < block {
		buf = make([]byte, block)
	}
	sum, tab := uint32(0), table()
	for at := int64(0); at < p.Size; {
		n := min(int64(len(buf)), p.Size-at)
		if _, err := g.file.ReadAt(buf[:n], p.Offset+at); err != nil {
			return fmt.Errorf("read a group: %w: %w", ErrDamaged, err)
		}
		sum = crc32.Update(sum, tab, buf[:n])
		at += n
		if at == p.Size && sum != p.Sum {
			return fmt.Errorf("a group in %s at byte %d: %w", s.name(p.Segment), p.Offset, ErrDamaged)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Usage is what a store takes.
type Usage struct {
	Segments int
	Bytes    int64 // of segments
	Log      int64 // bytes of the log
	Syncs    int64 // fsyncs of the log so far
}

// Usage tells what the store takes now.
func (s *Store) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Usage{Segments: len(s.live), Log: s.end, Syncs: s.syncs}
	for _, g := range s.live {
		u.Bytes += g.end
	}
	return u
}

// Err is why the store does not write any more, nil while it does.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Close waits for what was logged and closes the files.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, c := range []*sync.Cond{s.wake, s.keep, s.stocked} {
		c.Broadcast()
	}
	s.mu.Unlock()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.broken
	for _, g := range s.live {
		err = errors.Join(err, g.file.Close())
	}
	return errors.Join(err, s.log.Close(), s.lock.Close())
}

func (s *Store) sync(f *os.File) error {
	if s.opt.Sync != nil {
		return s.opt.Sync(f)
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

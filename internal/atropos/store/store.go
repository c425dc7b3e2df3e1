// Package store keeps groups on disk: their bytes in segments, what happens to them in a
// log of small events. Nothing of a group stays in memory, so the queue may be larger than
// it; what was written lately is read back from the page cache.
//
// The order of writing makes it safe against crashes: the bytes of a group are in its
// segment before the event that names them is logged, and both are on disk before [Store.Wait]
// returns. Whoever waits at the same time shares one fsync. A segment whose groups
// are all freed is removed, after the events that freed them are on disk.
//
// A Store is safe for concurrent use. One process has a directory at a time.
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
	Segment int64 // bytes of a segment; 0 means 64 MiB
}

// Store is an open directory.
type Store struct {
	dir  string
	opt  Options
	lock *os.File

	mu     sync.Mutex
	wake   *sync.Cond // the committer waits for events or the end
	synced *sync.Cond // others wait for their event
	active *segment
	live   map[uint32]*segment
	next   uint32
	log    *os.File
	size   int64  // of the log
	frames []byte // events that are not written yet
	freed  []Pos  // by them
	begun  uint64 // serial of the newest event
	ended  uint64 // serial of the newest one on disk
	busy   bool   // the committer is writing
	broken error
	closed bool
	done   chan struct{}
	syncs  int64
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

// Put writes the bytes of a group. They are kept once an event names them; until then, and
// when no event does, they are garbage of their segment.
func (s *Store) Put(b []byte) (Pos, error) {
	p := Pos{Sum: crc32.Checksum(b, table()), Size: int64(len(b))}
	s.mu.Lock()
	if s.broken != nil || s.closed {
		defer s.mu.Unlock()
		return p, s.down()
	}
	if s.active == nil || s.active.end > 0 && s.active.end+p.Size > s.opt.segment() {
		if err := s.roll(); err != nil {
			s.mu.Unlock()
			return p, err
		}
	}
	g := s.active
	p.Segment, p.Offset = g.id, g.end
	g.end += p.Size
	g.live++
	s.mu.Unlock()
	if _, err := g.file.WriteAt(b, p.Offset); err != nil {
		s.Drop(p)
		return p, fmt.Errorf("write %d bytes of a group: %w", len(b), err)
	}
	s.mu.Lock()
	g.dirty = true
	s.mu.Unlock()
	return p, nil
}

func (s *Store) down() error {
	if s.broken != nil {
		return s.broken
	}
	return errors.New("the store is closed")
}

// roll begins a segment. The lock is held.
func (s *Store) roll() error {
	id := s.next
	f, err := os.OpenFile(s.name(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("begin a segment: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	old := s.active
	s.next++
	s.active = &segment{id: id, file: f}
	s.live[id] = s.active
	if old != nil && old.live == 0 {
		s.remove(old)
	}
	return nil
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
	if g.live--; g.live == 0 && g != s.active {
		s.remove(g)
	}
}

// remove deletes a segment. A file that stays behind is removed when the store is opened
// again.
func (s *Store) remove(g *segment) {
	delete(s.live, g.id)
	g.file.Close()
	os.Remove(s.name(g.id))
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
		if at += n; at == p.Size && sum != p.Sum {
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
	u := Usage{Segments: len(s.live), Log: s.size, Syncs: s.syncs}
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
	s.wake.Signal()
	s.mu.Unlock()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.broken
	for _, g := range s.live {
		err = errors.Join(err, g.file.Close())
	}
	return errors.Join(err, s.log.Close(), s.lock.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package store

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A frame of the log is its length, the CRC-32C of its payload, and the payload.
const (
	frameHead = 8
	maxFrame  = 1 << 30
)

const logName = "events.log"

// Opened is what [Open] found.
type Opened struct {
	Frames int
	Cut    int64 // bytes of a torn tail that were cut off
}

// Open opens a directory, making it if need be. replay is given each event of the log in
// order; it must call [Store.Keep] for the groups that are in use after all of them, and
// [Store.Start] must be called when it has. The slice that replay gets is its own.
func Open(dir string, o Options, replay func(frame []byte) error) (_ *Store, found Opened, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, found, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, found, fmt.Errorf("data directory: %w", err)
	}
	s := &Store{dir: dir, opt: o, lock: lock, live: map[uint32]*segment{}}
	s.wake = sync.NewCond(&s.mu)
	s.synced = sync.NewCond(&s.mu)
	s.keep = sync.NewCond(&s.mu)
	s.stocked = sync.NewCond(&s.mu)
	defer func() {
		if err != nil {
			for _, g := range s.live {
				g.file.Close()
			}
			if s.log != nil {
				s.log.Close()
			}
			lock.Close()
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, found, fmt.Errorf("data directory %s is in use by another process: give each server its own directory (%w)", dir, err)
	}
	if err := s.segments(); err != nil {
		return nil, found, err
	}
	s.log, err = os.OpenFile(filepath.Join(dir, logName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, found, fmt.Errorf("open the log: %w", err)
	}
	found, err = s.replay(replay)
	if err != nil {
		return nil, found, err
	}
	s.end = s.size
	if err := s.log.Truncate(s.size); err != nil {
		return nil, found, fmt.Errorf("cut the log: %w", err)
	}
	return s, found, syncDir(dir)
}

// segments opens the files that are there.
func (s *Store) segments() error {
	list, err := filepath.Glob(filepath.Join(s.dir, "*.groups"))
	if err != nil {
		return err
	}
	for _, name := range list {
		var id uint32
		if _, err := fmt.Sscanf(filepath.Base(name), "%08d.groups", &id); err != nil {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("open a segment: %w", err)
		}
		s.live[id] = &segment{id: id, file: f}
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("look at a segment: %w", err)
		}
		s.live[id].end = info.Size()
		s.next = max(s.next, id+1)
	}
	return nil
}

func (s *Store) replay(each func([]byte) error) (found Opened, err error) {
	info, err := s.log.Stat()
	if err != nil {
		return found, fmt.Errorf("look at the log: %w", err)
	}
	r := bufio.NewReaderSize(s.log, 1<<20)
	tab := table()
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			break
		}
		n := binary.LittleEndian.Uint32(head[:])
		if int64(n) > min(maxFrame, info.Size()-s.size-frameHead) {
			break
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(r, frame); err != nil || crc32.Checksum(frame, tab) != binary.LittleEndian.Uint32(head[4:]) {
			break
		}
		if err := each(frame); err != nil {
			return found, fmt.Errorf("event %d of %s: %w", found.Frames, filepath.Join(s.dir, logName), err)
		}
		found.Frames++
		s.size += frameHead + int64(n)
	}
	found.Cut = info.Size() - s.size
	return found, nil
}

// Start begins to take groups and events; segments that nothing uses go.
func (s *Store) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range maps.Clone(s.live) {
		if g.live == 0 {
			s.retire(g)
		}
	}
	s.done.Go(s.commit)
	s.done.Go(s.keeper)
}

// Log appends an event, which takes the groups at freed out of use, and returns its serial
// for [Store.Wait]. Events are logged in the order of the calls.
func (s *Store) Log(frame []byte, freed ...Pos) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = appendFrame(s.frames, frame)
	s.end += frameHead + int64(len(frame))
	s.freed = append(s.freed, freed...)
	s.begun++
	s.wake.Signal()
	return s.begun
}

func appendFrame(b, frame []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(frame, table()))
	return append(b, frame...)
}

// Wait returns when the event with a serial, and all before it, are on disk.
func (s *Store) Wait(serial uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ended < serial && s.broken == nil {
		s.synced.Wait()
	}
	if s.ended >= serial {
		return nil
	}
	return s.broken
}

// commit writes and syncs what has gathered, again and again.
func (s *Store) commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.busy || len(s.frames) == 0 && !s.closed {
			s.wake.Wait()
		}
		if len(s.frames) == 0 || s.broken != nil {
			return
		}
		frames := s.frames
		freed := s.freed
		serial := s.begun
		at := s.size
		log := s.log
		s.frames = nil
		s.freed = nil
		s.busy = true
		var dirty []*segment
		for _, g := range s.live {
			if g.dirty {
				g.dirty = false
				g.live++ // it must stay open
				dirty = append(dirty, g)
			}
		}
		s.mu.Unlock()
		err := s.flush(log, frames, at, dirty)
		s.mu.Lock()
		s.busy = false
		for _, g := range dirty {
			s.free(Pos{Segment: g.id})
		}
		if err != nil {
			// After a failed fsync it is unknown what is on disk, and a second one may lie.
			s.fail(fmt.Errorf("the store has stopped; start the server again when the disk is well: %w", err))
		} else {
			s.size += int64(len(frames))
			s.ended = serial
			s.syncs++
			for _, p := range freed {
				s.free(p)
			}
		}
		s.synced.Broadcast()
	}
}

// fail stops the store. The lock is held.
func (s *Store) fail(err error) {
	s.broken = err
	for _, c := range []*sync.Cond{s.wake, s.synced, s.keep, s.stocked} {
		c.Broadcast()
	}
}

func (s *Store) flush(log *os.File, frames []byte, at int64, dirty []*segment) error {
	for _, g := range dirty {
		if err := s.sync(g.file); err != nil {
			return fmt.Errorf("sync a segment: %w", err)
		}
	}
	if _, err := log.WriteAt(frames, at); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	if err := s.sync(log); err != nil {
		return fmt.Errorf("sync the log: %w", err)
	}
	return nil
}

package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
)

// Mark is the place in the log behind all that has been logged so far.
func (s *Store) Mark() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Compact replaces what is in the log before a mark by frames. Events may be logged
// meanwhile: those behind the mark are taken over, and only while that is done does anybody
// who waits for theirs wait longer. One compaction runs at a time; when it fails before
// the new log has taken its place, the old one goes on.
func (s *Store) Compact(mark int64, frames iter.Seq[[]byte]) error {
	temp := filepath.Join(s.dir, logName+".new")
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("compact the log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	n := int64(0)
	for frame := range frames {
		b := appendFrame(nil, frame)
		n += int64(len(b))
		if _, err = w.Write(b); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = s.sync(f)
	}
	if err == nil {
		err = s.replace(f, temp, mark, n)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compact the log: %w", err), f.Close())
	}
	return nil
}

// replace puts the log in f, which is size bytes long, into the place of the one in use.
func (s *Store) replace(f *os.File, temp string, mark, size int64) error {
	s.mu.Lock()
	for (s.busy || s.size < mark) && s.broken == nil {
		s.synced.Wait()
	}
	if s.broken != nil {
		defer s.mu.Unlock()
		return s.broken
	}
	s.busy = true
	old, end := s.log, s.size
	s.mu.Unlock()
	moved, err := s.take(f, temp, old, mark, end, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.wake.Signal()
	switch {
	case err != nil && !moved:
		return err
	case err != nil: // it is unknown which of the two logs is there after a crash
		s.fail(fmt.Errorf("the store has stopped; start the server again when the disk is well: %w", err))
		return err
	}
	s.log, s.size = f, size+end-mark
	s.end = s.size + int64(len(s.frames))
	old.Close() // all of it was synced
	return nil
}

// take copies what follows the mark and moves the new log into place.
func (s *Store) take(f *os.File, temp string, old *os.File, mark, end, size int64) (moved bool, err error) {
	if _, err := io.Copy(io.NewOffsetWriter(f, size), io.NewSectionReader(old, mark, end-mark)); err != nil {
		return false, err
	}
	if err := s.sync(f); err != nil {
		return false, err
	}
	if err := os.Rename(temp, filepath.Join(s.dir, logName)); err != nil {
		return false, err
	}
	return true, syncDir(s.dir)
}

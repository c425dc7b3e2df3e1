package store

import (
	"errors"
	"fmt"
	"os"
)

// retire takes a segment that nothing uses out of sight; the keeper does the rest. The
// lock is held.
func (s *Store) retire(g *segment) {
	delete(s.live, g.id)
	s.trash = append(s.trash, g)
	s.keep.Signal()
}

// keeper makes the segments that will be written next and gets rid of those that are
// freed. Making and removing files takes time, for which no other goroutine should wait.
//
// A freed segment of full size becomes the next one: writing over pages that are in the
// cache and blocks that the file has costs less than half of writing new ones.
func (s *Store) keeper() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var old *segment
		if n := len(s.trash); n > 0 {
			old = s.trash[n-1]
			s.trash = s.trash[:n-1]
		}
		want := s.spare == nil && !s.closed && s.broken == nil
		switch {
		case want:
			id := s.next
			s.next++
			s.mu.Unlock()
			g, err := s.make(id, old)
			s.mu.Lock()
			if err != nil {
				s.fail(fmt.Errorf("the store has stopped; start the server again when the disk is well: %w", err))
				continue
			}
			s.spare = g
			s.stocked.Broadcast()
		case old != nil:
			s.mu.Unlock()
			s.remove(old)
			s.mu.Lock()
		case s.closed || s.broken != nil:
			if s.spare != nil {
				g := s.spare
				s.spare = nil
				s.remove(g)
			}
			return
		default:
			s.keep.Wait()
		}
	}
}

// make makes an empty segment, of an old one if that fits.
func (s *Store) make(id uint32, old *segment) (*segment, error) {
	g := &segment{id: id}
	if old != nil && s.fits(old) && os.Rename(s.name(old.id), s.name(id)) == nil {
		g.file = old.file
	} else {
		if old != nil {
			s.remove(old)
		}
		var err error
		g.file, err = os.OpenFile(s.name(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("begin a segment: %w", err)
		}
	}
	// A log that names the segment must not be there without it.
	if err := syncDir(s.dir); err != nil {
		return nil, errors.Join(err, g.file.Close())
	}
	return g, nil
}

// fits reports whether a file is about as large as a segment becomes.
func (s *Store) fits(g *segment) bool {
	info, err := g.file.Stat()
	return err == nil && info.Size() > s.opt.segment()/2 && info.Size() <= s.opt.segment()
}

// remove deletes a segment. A file that stays behind is removed when the store is opened
// again.
func (s *Store) remove(g *segment) {
	g.file.Close()
	os.Remove(s.name(g.id))
}

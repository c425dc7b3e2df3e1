package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"hermes/trajectory"
)

// Repaired is what [Repair] did.
type Repaired struct {
	Frames int      // that are whole, in all segments
	Lost   []Loss   // in log order
	Files  []string // segments that were written again
	Aside  []string // where their damaged forms are kept
}

// Repair makes a damaged log readable again. Every whole frame keeps its place, and what is
// damaged becomes a gap. A key whose last record was lost is not done any more. The damaged
// segments are kept beside the new ones. A log without damage is left as it is. The caller must
// be the only one that writes the log.
//
// A frame is whole when both of its checksums hold and it bears the number of this log,
// which no payload can name. Frames that damage has moved go back to where they were
// written; frames of form 1, which do not say where, keep their order.
func Repair(ctx context.Context, dir string, o Options) (r Repaired, err error) {
	if o.FS == nil {
		o.FS = OS{}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("repair journal %s: %w", dir, explain(err))
		}
	}()
	c, err := newCodec()
	if err != nil {
		return r, err
	}
	all, err := lookOver(o.FS, dir, c)
	if err != nil {
		return r, err
	}
	for _, s := range all {
		r.Frames += len(s.keep)
		r.Lost = append(r.Lost, s.lost...)
		if s.pieces == nil {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return r, err
		}
		aside, err := s.write(o.FS)
		if err != nil {
			return r, err
		}
		r.Files = append(r.Files, s.name)
		if aside != "" {
			r.Aside = append(r.Aside, aside)
		}
	}
	return r, takeBack(ctx, dir, o, r.Lost)
}

// takeBack reopens the failures of keys of which a later record is lost.
func takeBack(ctx context.Context, dir string, o Options, lost []Loss) (err error) {
	if !slices.ContainsFunc(lost, func(l Loss) bool { return l.Kind == KindFinal || l.Kind == KindReopen }) {
		return nil
	}
	o.ReadOnly, o.Salvage = false, false
	j, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var keys []trajectory.Key
	for _, l := range lost {
		at, done := j.FinalAt(l.Key)
		if h, _ := j.Last(l.Key); (l.Kind == KindFinal || l.Kind == KindReopen) && done && at < l.At && h.Outcome.Failure() {
			keys = append(keys, l.Key)
		}
	}
	return j.Reopen(ctx, keys)
}

// write replaces the file of a segment; a crash leaves the old or the new one. aside names
// the copy of the old one.
func (s *survey) write(fsys FS) (aside string, err error) {
	m := mendedFile{s: s}
	old, err := fsys.Open(s.name, false)
	switch {
	case err == nil:
		m.file = old
		defer func() { err = errors.Join(err, old.Close()) }()
		aside, err = unusedName(fsys, s.name+".damaged")
		if err == nil {
			err = copyTo(fsys, aside, old, s.size)
		}
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil {
		err = copyTo(fsys, s.name+".tmp", m, s.length)
	}
	if err == nil {
		err = fsys.Rename(s.name+".tmp", s.name)
	}
	if err != nil {
		return aside, err
	}
	return aside, fsys.SyncDir(filepath.Dir(s.name))
}

func unusedName(fsys FS, name string) (string, error) {
	names, err := fsys.List(filepath.Dir(name))
	free := name
	for n := 2; slices.Contains(names, filepath.Base(free)); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free, err
}

// copyTo writes size bytes of a file into a new one and makes them durable.
func copyTo(fsys FS, name string, from File, size int64) error {
	to, err := fsys.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size && err == nil; {
		b := buf[:min(size-at, int64(len(buf)))]
		if err = readFull(from, b, at); err == nil {
			_, err = to.WriteAt(b, at)
		}
		at += int64(len(b))
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

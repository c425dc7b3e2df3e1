//go:build linux

package unpack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"hermes/backends"
)

// Options bound what is unpacked. The zero value is usable.
type Options struct {
	Bytes   int64 // of an image, unpacked; 0 means 64 GiB
	Entries int   // of an image: files, folders, links; 0 means 4,000,000
}

// Image is an unpacked image.
type Image struct {
	Root   string            `json:"-"` // directory of its root file system
	Digest string            `json:"digest"`
	Env    map[string]string `json:"env,omitempty"`
	Dir    string            `json:"dir,omitempty"` // where its commands start; empty: it does not say
}

// Store is a folder of unpacked images.
type Store struct {
	dir  string
	opt  Options
	life context.Context
	stop context.CancelCauseFunc
	runs sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	known   map[string]Image   // by the state of what they were unpacked from
	flights map[string]*flight // likewise
}

// flight is an image being unpacked for all who asked.
type flight struct {
	done chan struct{}
	img  Image
	err  error
}

// mostKnown bounds what a store keeps in mind.
const mostKnown = 256

// NewStore returns the store in a folder, which is made when it is first needed.
func NewStore(dir string, o Options) (*Store, error) {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return nil, fmt.Errorf("store of images %q: want a clean absolute path below /", dir)
	}
	if o.Bytes < 0 || o.Entries < 0 {
		return nil, fmt.Errorf("store of images: bounds of %d bytes and %d entries: negative", o.Bytes, o.Entries)
	}
	o.Bytes, o.Entries = cmp.Or(o.Bytes, 64<<30), cmp.Or(o.Entries, 4_000_000)
	s := &Store{dir: dir, opt: o, known: map[string]Image{}, flights: map[string]*flight{}}
	s.life, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// Get returns an image, which it unpacks when it is not in the store. Unpacking goes on
// when ctx ends, so that the next who asks has less to wait for, until Close.
func (s *Store) Get(ctx context.Context, r Ref) (Image, error) {
	state, err := r.state()
	if err != nil {
		return Image{}, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Image{}, fmt.Errorf("image %q: %w", r, backends.ErrClosed)
	}
	img, ok := s.known[state]
	if ok && isDir(img.Root) {
		s.mu.Unlock()
		return img, nil
	}
	f := s.flights[state]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flights[state] = f
		s.runs.Go(func() { s.fly(f, r, state) })
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.img, f.err
	case <-ctx.Done():
		return Image{}, fmt.Errorf("image %q is being unpacked: %w", r, context.Cause(ctx))
	}
}

// fly unpacks an image for all who wait.
func (s *Store) fly(f *flight, r Ref, state string) {
	f.img, f.err = s.get(s.life, r, state)
	if f.err != nil {
		f.err = fmt.Errorf("image %q: %w", r, f.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.flights, state); f.err == nil {
		if len(s.known) >= mostKnown {
			clear(s.known)
		}
		s.known[state] = f.img
	}
	close(f.done)
}

// Close ends what is being unpacked. The folder stays.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(backends.ErrClosed)
	s.runs.Wait()
}

// fault is what is wrong with an image.
func fault(format string, args ...any) error {
	return fmt.Errorf("%w: %w", backends.ErrImage, fmt.Errorf(format, args...))
}

// blame makes what went wrong with reading an archive the archive's fault, unless the
// reading was given up.
func blame(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, backends.ErrImage):
		return err
	}
	if own := (*storeError)(nil); errors.As(err, &own) {
		return err
	}
	return fault("%s: %w", what, err)
}

package backendtest

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// Fake is a back-end in memory for tests of what uses boxes. Commands are answered by
// a function; files are a map. It opens boxes until Close.
type Fake struct {
	run   func(ctx context.Context, box *FakeBox, c backends.Cmd) (backends.Result, error)
	mu    sync.Mutex
	shut  bool
	boxes []*FakeBox
}

// NewFake returns a Fake whose boxes answer commands with run; nil answers code 0.
func NewFake(run func(ctx context.Context, box *FakeBox, c backends.Cmd) (backends.Result, error)) *Fake {
	return &Fake{run: run}
}

// Open implements backends.Backend.
func (f *Fake) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open fake box: %w", err)
	}
	if f.shut {
		return nil, fmt.Errorf("open fake box: %w", backends.ErrClosed)
	}
	b := &FakeBox{Spec: s, id: wire.NewID(), from: f, files: map[string][]byte{}}
	f.boxes = append(f.boxes, b)
	return b, nil
}

// Traits implements backends.Backend.
func (f *Fake) Traits() backends.Traits {
	return backends.Traits{Name: "fake", Isolated: true, Network: "none"}
}

// Close implements backends.Backend.
func (f *Fake) Close(ctx context.Context) error {
	f.mu.Lock()
	f.shut = true
	f.mu.Unlock()
	for _, b := range f.Boxes() {
		b.Close(ctx)
	}
	return nil
}

// Boxes lists all boxes that were ever opened.
func (f *Fake) Boxes() []*FakeBox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*FakeBox(nil), f.boxes...)
}

// FakeBox is a box of a [Fake].
type FakeBox struct {
	Spec   backends.Spec
	id     string
	from   *Fake
	mu     sync.Mutex
	closed bool
	files  map[string][]byte
	ran    []backends.Cmd
}

// ID implements backends.Sandbox.
func (b *FakeBox) ID() string { return b.id }

// Ran lists the commands so far.
func (b *FakeBox) Ran() []backends.Cmd {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]backends.Cmd(nil), b.ran...)
}

// Closed tells whether the box was closed.
func (b *FakeBox) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// enter locks the box for a call.
func (b *FakeBox) enter(ctx context.Context) error {
	b.mu.Lock()
	err := ctx.Err()
	if err == nil && b.closed {
		err = backends.ErrClosed
	}
	if err != nil {
		b.mu.Unlock()
	}
	return err
}

// Exec implements backends.Sandbox.
func (b *FakeBox) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	if err := b.enter(ctx); err != nil {
		return backends.Result{}, err
	}
	b.ran = append(b.ran, c)
	b.mu.Unlock()
	if b.from.run == nil {
		return backends.Result{}, nil
	}
	return b.from.run(ctx, b, c)
}

// at is where relative paths begin.
func (b *FakeBox) at(name string) string { return path.Join("/box", b.Spec.Dir, name) }

// ReadFile implements backends.Sandbox.
func (b *FakeBox) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.mu.Unlock()
	key := name
	if !path.IsAbs(name) {
		key = b.at(name)
	}
	data, ok := b.files[path.Clean(key)]
	switch {
	case !ok:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	case limit > 0 && int64(len(data)) > limit:
		return nil, &fs.PathError{Op: "read", Path: name, Err: backends.ErrTooLarge}
	}
	return append([]byte{}, data...), nil
}

// WriteFile implements backends.Sandbox.
func (b *FakeBox) WriteFile(ctx context.Context, name string, data []byte, _ fs.FileMode) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.mu.Unlock()
	key := name
	if !path.IsAbs(name) {
		key = b.at(name)
	}
	b.files[path.Clean(key)] = append([]byte{}, data...)
	return nil
}

// Close implements backends.Sandbox.
func (b *FakeBox) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

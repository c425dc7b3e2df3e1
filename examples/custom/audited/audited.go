// Package audited is a back-end whose boxes are those of the back-end local, and which writes
// every command into a file of the host before it runs.
//
// A back-end is safe for concurrent use, and so are its boxes.
package audited

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"hermes/backends"
	"hermes/backends/local"
)

// Config is the section backends.audited of a run file.
type Config struct {
	File string       `yaml:"file"` // the commands, a JSON line each
	Box  local.Config `yaml:"box"`
}

// Check objects to a section that cannot be used, before anything is opened.
func (c Config) Check() error {
	if c.File == "" {
		return errors.New("file: name the file that the commands are written to")
	}
	return nil
}

// Kind is the back-end for Parts.Backends.
var Kind = backends.NewKind("audited", func(_ context.Context, c Config) (backends.Backend, error) { return New(c) })

// Backend makes audited boxes.
type Backend struct {
	inner *local.Backend
	mu    sync.Mutex // of out
	out   *os.File
}

// New opens the file and the back-end behind it.
func New(c Config) (*Backend, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(c.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("file of commands: %w", err)
	}
	inner, err := local.New(c.Box)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &Backend{inner: inner, out: out}, nil
}

// Traits are those of local under another name.
func (b *Backend) Traits() backends.Traits {
	t := b.inner.Traits()
	t.Name = "audited"
	return t
}

// Open makes a box.
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	x, err := b.inner.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return &box{Sandbox: x, from: b}, nil
}

// Close ends all boxes.
func (b *Backend) Close(ctx context.Context) error {
	return errors.Join(b.inner.Close(ctx), b.out.Close())
}

// note writes a command. One that cannot be written must not run.
func (b *Backend) note(id string, c backends.Cmd) error {
	line, err := json.Marshal(map[string]any{"box": id, "argv": c.Argv, "shell": c.Shell, "dir": c.Dir})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err = b.out.Write(append(line, '\n'))
	return err
}

// box is a box of local. The abilities that it has beside those of [backends.Sandbox], such as
// commands in the background, are not passed on, since they would go around the file: tools do
// without them or say that they cannot.
type box struct {
	backends.Sandbox
	from *Backend
}

// Exec writes the command down and runs it.
func (b *box) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	if err := b.from.note(b.ID(), c); err != nil {
		return backends.Result{}, fmt.Errorf("write the command down: %w", err)
	}
	return b.Sandbox.Exec(ctx, c)
}

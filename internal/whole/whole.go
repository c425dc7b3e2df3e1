// Package whole writes files that take the place of older ones once they are complete.
package whole

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// File is a file that is being written. It is for its owner alone.
type File struct {
	*bufio.Writer
	f    *os.File
	name string
}

// Create begins a file. Call Keep or Drop.
func Create(name string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".hermes-*")
	if err != nil {
		return nil, err
	}
	return &File{Writer: bufio.NewWriter(f), f: f, name: name}, nil
}

// Write has write fill a file, which takes the place of an older one unless there is an error.
func Write(name string, write func(io.Writer) error) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Drop())
	}
	return f.Keep()
}

// Keep puts the file, synced, in the place of an older one. After an error the older one is as
// it was, and nothing is left beside it.
func (f *File) Keep() error {
	err := errors.Join(f.Flush(), f.f.Sync(), f.f.Close())
	if err == nil {
		err = os.Rename(f.f.Name(), f.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.f.Name()))
	}
	return nil
}

// Drop leaves the older file as it was.
func (f *File) Drop() error { return errors.Join(f.f.Close(), os.Remove(f.f.Name())) }

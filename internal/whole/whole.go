// Package whole writes files that take the place of older ones once they are complete.
package whole

import (
	"bufio"
	"errors"
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

// Keep puts the file, synced, in the place of an older one.
func (f *File) Keep() error {
	err := errors.Join(f.Flush(), f.f.Sync(), f.f.Close())
	if err == nil {
		err = os.Rename(f.f.Name(), f.name)
	}
	return err
}

// Drop leaves the older file as it was.
func (f *File) Drop() error { return errors.Join(f.f.Close(), os.Remove(f.f.Name())) }

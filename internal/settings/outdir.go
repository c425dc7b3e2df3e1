package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CanMake says why a folder cannot be made or written, before anything is spent. It leaves
// nothing behind.
func CanMake(dir string) error {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			if at != filepath.Dir(at) {
				continue
			}
			return err
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is a file, want a folder", at)
		}
		probe, err := os.MkdirTemp(at, ".hermes-*")
		if err != nil {
			return fmt.Errorf("nothing can be written in %s: %w", at, bareError(err))
		}
		return os.Remove(probe)
	}
}

// bareError drops the path from an error that is part of another one.
func bareError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

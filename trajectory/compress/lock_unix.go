//go:build unix

package compress

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file against other processes without waiting; it ends with the process. A
// file system without locks counts as locked.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

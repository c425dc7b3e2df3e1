package program

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// canStart objects to a folder whose file system starts no programs.
func canStart(dir string) error {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if at.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("nothing can be started from %s", dir)
	}
	return nil
}

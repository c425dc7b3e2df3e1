package program

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open unpacks the program, which takes about 10 ms, into a sealed file in memory, which can be
// started by its name /proc/self/fd/N. The caller closes it.
func Open() (*os.File, error) {
	if len(packed()) == 0 { // before a file is made
		return nil, unpack(nil)
	}
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("hermes-slotd", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel that has no such flag, where all may be executed
		fd, err = unix.MemfdCreate("hermes-slotd", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("slotd program: file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "hermes-slotd")
	if err = unpack(f); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("slotd program: write to memory: %w", err)
	}
	return f, nil
}

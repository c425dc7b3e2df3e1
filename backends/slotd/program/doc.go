// Package program is the slotd program as part of hermes.
//
// `make build` builds cmd/slotd, static and small, and then hermes with the build tag
// slotd, which embeds it here. A box then starts the small program; without the tag
// hermes starts itself under that name, which costs a few milliseconds more.
package program

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNone says that this hermes was built without the program.
var ErrNone = errors.New("built without the tag slotd")

// Open returns the program as a sealed file in memory, which can be started by its name
// /proc/self/fd/N. The caller closes it.
func Open() (*os.File, error) {
	text := bytes()
	if len(text) == 0 {
		return nil, fmt.Errorf("slotd program: %w", ErrNone)
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
	if _, err = f.Write(text); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("slotd program: write to memory: %w", err)
	}
	return f, nil
}

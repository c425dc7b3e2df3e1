package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ErrNone says that this hermes was built without the program.
var ErrNone = errors.New("built without the tag slotd")

// Open unpacks the program, which takes about 10 ms, into a sealed file in memory, which can be
// started by its name /proc/self/fd/N. The caller closes it.
func Open() (*os.File, error) {
	if len(packed()) == 0 {
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
	if err = unpack(f); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("slotd program: write to memory: %w", err)
	}
	return f, nil
}

// unpack writes the program.
func unpack(to io.Writer) error {
	d, err := zstd.NewReader(bytes.NewReader(packed()), zstd.WithDecoderConcurrency(1)) // in this goroutine
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.WriteTo(to)
	return err
}

package slotd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// newKept makes the file of [backends.Cmd].Kept: it lives in memory, has no name, and any
// user may open it anew through /proc. It is nil for a command that wants none.
func newKept(data []byte) (*os.File, error) {
	if data == nil {
		return nil, nil
	}
	if len(data) > backends.MaxKept {
		return nil, fmt.Errorf("a kept file of %d bytes, at most %d are allowed: %w", len(data), backends.MaxKept, backends.ErrTooLarge)
	}
	fd, err := unix.MemfdCreate("kept", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the kept file of a command: %w", err)
	}
	f := os.NewFile(uintptr(fd), "kept")
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("fill the kept file of a command: %w", err)
	}
	return f, nil
}

// readKept returns what a kept file holds; nothing where that is more than its bound. The
// command may have done with the file whatever it likes: no error of it is an error of the box.
func readKept(f *os.File) []byte {
	st, err := f.Stat()
	if err != nil || st.Size() > backends.MaxKept {
		return []byte{}
	}
	data := make([]byte, st.Size())
	n, err := f.ReadAt(data, 0) // a process that the command left may shorten it meanwhile
	if err != nil && !errors.Is(err, io.EOF) {
		return []byte{}
	}
	return data[:n]
}

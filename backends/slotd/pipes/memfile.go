//go:build linux

package pipes

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// memFile makes a file that lives in memory and lies in no folder; its name shows only behind
// the links of /proc, through which any user may open it again.
func memFile(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the %s file of a command: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if len(data) == 0 {
		return f, nil
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("fill the %s file of a command: %w", name, err)
	}
	return f, nil
}

// readMemFile returns what such a file holds, at most one byte more than most. The command may
// have done with the file whatever it likes: no error of it is an error of the box.
func readMemFile(f *os.File, most int) []byte {
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	data := make([]byte, min(st.Size(), int64(most)+1))
	n, err := f.ReadAt(data, 0) // a process that the command left may shorten it meanwhile
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return data[:n]
}

// NewKept makes the file of [backends.Cmd].Kept; nil for a command that wants none.
func NewKept(data []byte) (*os.File, error) {
	if data == nil {
		return nil, nil
	}
	if len(data) > backends.MaxKept {
		return nil, fmt.Errorf("a kept file of %d bytes, at most %d are allowed: %w", len(data), backends.MaxKept, backends.ErrTooLarge)
	}
	return memFile("kept", data)
}

// ReadKept returns what a kept file holds: never nil, and nothing where that is more than its
// bound.
func ReadKept(f *os.File) []byte {
	data := readMemFile(f, backends.MaxKept)
	if data == nil || len(data) > backends.MaxKept {
		return []byte{}
	}
	return data
}

// newReport makes the file of [backends.Cmd].Report; nil for a command that wants none.
func newReport(c backends.Cmd) (*os.File, error) {
	if c.Report == "" {
		return nil, nil
	}
	return memFile("report", nil)
}

// readReport returns what was reported; nil where there is nothing.
func readReport(f *os.File) []byte {
	if data := readMemFile(f, backends.MaxReport); len(data) > 0 {
		return data
	}
	return nil
}

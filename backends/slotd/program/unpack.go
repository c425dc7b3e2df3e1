package program

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrNone says that this hermes was built without the program.
var ErrNone = errors.New("built without the tag slotd")

// Bytes returns the program, to be copied to another machine.
func Bytes() ([]byte, error) {
	var text bytes.Buffer
	err := unpack(&text)
	return text.Bytes(), err
}

// unpack writes the program.
func unpack(to io.Writer) error {
	if len(packed()) == 0 {
		return fmt.Errorf("slotd program: %w", ErrNone)
	}
	d, err := zstd.NewReader(bytes.NewReader(packed()), zstd.WithDecoderConcurrency(1)) // in this goroutine
	if err != nil {
		return fmt.Errorf("slotd program: %w", err)
	}
	defer d.Close()
	if _, err = d.WriteTo(to); err != nil {
		return fmt.Errorf("slotd program: %w", err)
	}
	return nil
}

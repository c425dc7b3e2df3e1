package server

import (
	"io"

	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// maxHandOver bounds a file that readOnce reads.
const maxHandOver = wire.MaxSetup

// readOnce reads a file that the maker of the box put there for this process alone.
func readOnce(path string) ([]byte, error) {
	f, _, err := trees.File(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxHandOver))
}

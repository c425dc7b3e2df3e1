//go:build !linux

package server

import (
	"fmt"
	"io"
	"runtime"

	"hermes/backends/slotd/wire"
)

// Main refuses: the server in a box needs Linux.
func Main(_ []string, _ io.Reader, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "%s: the server in a box needs Linux; this is %s\n", wire.Name, runtime.GOOS)
	return 1
}

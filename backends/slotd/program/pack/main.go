// Command pack compresses the slotd program for hermes, which embeds it: pack FROM TO. `make build`
// runs it.
package main

import (
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// window is the memory that unpacking takes, in bytes. A larger one makes the program less than one
// per cent smaller.
const window = 1 << 20

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pack FROM TO")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack writes a file compressed.
func pack(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	return os.WriteFile(to, e.EncodeAll(text, nil), 0o644)
}

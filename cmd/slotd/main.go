//go:build linux

// Command slotd is the server inside a box, as a separate program.
package main

import (
	"os"

	"hermes/backends/namespace"
	"hermes/backends/slotd/server"
	"hermes/backends/ssh/station"
)

func main() {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := station.Main(os.Args, os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

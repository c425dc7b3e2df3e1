// Command slotd is the server inside a box, as a program of its own.
package main

import (
	"os"

	"hermes/backends/slotd"
)

func main() { os.Exit(slotd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

package rows_test

import (
	"os"
	"path/filepath"
	"testing"

	"hermes/backends/namespace"
	"hermes/backends/slotd"
)

func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == slotd.Name { // the server inside of boxes of Docker is this very program
		os.Exit(slotd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

package rows_test

import (
	"os"
	"path/filepath"
	"testing"

	"hermes/backends/namespace"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
)

func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == wire.Name { // the server inside of boxes of Docker is this very program
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

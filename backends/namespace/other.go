//go:build !linux

package namespace

import (
	"context"

	"hermes/backends"
)

// Backend is never made on this system.
type Backend struct{ backends.Backend }

// Open fails: only Linux has namespaces.
func Open(context.Context, Config, func(Server) Client) (*Backend, error) {
	return nil, backends.NeedsLinux("boxes of namespaces")
}

// Main handles nothing: there are no boxes on this system.
func Main([]string) (code int, handled bool) { return 0, false }

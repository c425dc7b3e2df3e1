//go:build !linux

package local

import (
	"context"

	"hermes/backends"
)

// Backend is never made on this system.
type Backend struct{ backends.Backend }

// New fails: commands are bounded and ended by what only Linux has.
func New(Config) (*Backend, error) {
	return nil, backends.NeedsLinux("boxes of plain processes")
}

// SweepDefault finds nothing: there are no boxes on this system.
func SweepDefault(context.Context) (removed int, err error) { return 0, nil }

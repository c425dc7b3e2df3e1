//go:build !linux

package backends

import (
	"fmt"
	"runtime"
)

// NeedsLinux is the error of a driver that makes its boxes on this machine, of what only Linux
// has. It wraps [ErrUnavailable].
func NeedsLinux(name, boxes string) error {
	return fmt.Errorf("%s: %w: %s need Linux; this is %s: use docker, ssh, nomad or modal", name, ErrUnavailable, boxes, runtime.GOOS)
}

//go:build !linux

package backends

import (
	"fmt"
	"runtime"
)

// NeedsLinux is the error of a driver whose boxes are made on this machine, of what only Linux
// has. It wraps [ErrUnavailable].
func NeedsLinux(boxes string) error {
	return fmt.Errorf("%w: %s need Linux; this is %s: use docker, ssh, nomad or modal", ErrUnavailable, boxes, runtime.GOOS)
}

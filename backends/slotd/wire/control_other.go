//go:build !linux

package wire

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// errLinux is why there is no control socket.
var errLinux = fmt.Errorf("boxes of this machine need Linux: use an engine or a host elsewhere (backends docker with a remote engine, nomad, modal): %w", errors.ErrUnsupported)

// HostEnd is our end of a control socket, which only Linux has.
type HostEnd struct{ Conn *net.UnixConn }

// Dial fails.
func (p *HostEnd) Dial() (net.Conn, error) { return nil, errLinux }

// Pair fails.
func Pair() (*net.UnixConn, *os.File, error) { return nil, nil, errLinux }

// ReceiveListener fails.
func ReceiveListener(*net.UnixConn) (net.Listener, error) { return nil, errLinux }

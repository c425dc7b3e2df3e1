package wire

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// The proxy of a box listens on a socket that is made in the network of the box and sent out
// through the control socket, before the first command. A process of the box that connects to it
// talks to hermes, and hermes needs no way in. No process of the box keeps the socket.

// backlog bounds the connections that wait for hermes.
const backlog = 128

// NewListener makes a listening socket on the box's loopback.
func NewListener(port int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket of the proxy: %w", err)
	}
	at := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if err = errors.Join(unix.Bind(fd, at), unix.Listen(fd, backlog)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen on 127.0.0.1:%d of the box for the proxy: %w", port, err)
	}
	return fd, nil
}

// Send hands a descriptor out and closes it here.
func (l BoxEnd) Send(fd int) error {
	defer unix.Close(fd)
	for {
		err := unix.Sendmsg(l.FD, []byte{1}, unix.UnixRights(fd), nil, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("control socket: %w", err)
		}
		return nil
	}
}

// ReceiveListener takes the listening socket of a box that has just said that it is ready.
func ReceiveListener(from *net.UnixConn) (net.Listener, error) {
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := from.ReadMsgUnix(data[:], oob)
	if err != nil {
		return nil, fmt.Errorf("take the socket of the proxy from the box: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the box sent no socket for the proxy")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("the box sent no socket for the proxy")
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()
	for option, want := range map[int]int{unix.SO_ACCEPTCONN: 1, unix.SO_DOMAIN: unix.AF_INET, unix.SO_TYPE: unix.SOCK_STREAM} {
		if got, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, option); err != nil || got != want {
			return nil, fmt.Errorf("what the box sent is not a listening socket (option %d is %d, %v)", option, got, err)
		}
	}
	return net.FileListener(f)
}

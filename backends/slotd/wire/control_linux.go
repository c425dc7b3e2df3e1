package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A control socket is one socket between hermes and a box. First it carries messages (length
// and bytes) in both directions, then connections, as one byte with one descriptor each.
// Nothing in the box can find it by a path, and its end is the end of the box: so boxes
// end with the hermes that made them, whatever ended it.

// errNoDescriptor is what the box says when the other end sent nonsense.
var errNoDescriptor = errors.New("control socket: a byte came without a descriptor")

// Message is data as one message.
func Message(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// WriteMessage writes one message.
func WriteMessage(w io.Writer, data []byte) error {
	_, err := w.Write(Message(data))
	return err
}

// ReadMessage reads one message of at most max bytes.
func ReadMessage(r io.Reader, max uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > max {
		return nil, fmt.Errorf("message of %d bytes is longer than %d", n, max)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}

// Pair returns a connected pair of stream sockets: ours as a connection, theirs as a file.
func Pair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "hermes box")
	ours := os.NewFile(uintptr(fds[0]), "hermes box")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("use a socket pair: %w", err)
	}
	return c.(*net.UnixConn), theirs, nil
}

// HostEnd is the host's end. Dial is safe for concurrent use.
type HostEnd struct {
	Conn *net.UnixConn
	mu   sync.Mutex
}

// Dial opens a connection to the box.
func (p *HostEnd) Dial() (net.Conn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Conn.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a box that does not take it must not hang us
	if _, _, err := p.Conn.WriteMsgUnix([]byte{1}, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		ours.Close()
		return nil, fmt.Errorf("connect to the box: %w", err)
	}
	return ours, nil
}

// BoxEnd is the box's end. It is a net.Listener whose connections are those that the
// host passes. Accept blocks a thread, so that nothing in the box can keep it from
// seeing the end of the host.
type BoxEnd struct{ FD int }

// Accept implements net.Listener. The end of the host ends this process, without order:
// it is pid 1 of the box, and the kernel ends what is left with it.
func (l BoxEnd) Accept() (net.Conn, error) {
	fd, err := l.Receive()
	if err != nil {
		os.Exit(0)
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// Receive waits for the next descriptor; io.EOF says that the host is gone.
func (l BoxEnd) Receive() (int, error) {
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(l.FD, data[:], oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return -1, fmt.Errorf("control socket: %w", err)
		case n == 0:
			return -1, io.EOF
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return -1, errNoDescriptor
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return -1, errNoDescriptor
		}
		return fds[0], nil
	}
}

// Read implements io.Reader, for messages.
func (l BoxEnd) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(l.FD, p)
		if err == unix.EINTR {
			continue
		}
		if n == 0 && err == nil {
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

// Write implements io.Writer, for messages.
func (l BoxEnd) Write(p []byte) (int, error) { return unix.Write(l.FD, p) }

// Close implements net.Listener; the socket itself lives as long as the box.
func (l BoxEnd) Close() error { return nil }

// Addr implements net.Listener.
func (l BoxEnd) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "control socket"} }

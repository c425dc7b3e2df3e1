package namespace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The control socket carries, in this order: the plan (length and JSON) to the box, the
// answer (length and text, empty for ready) back, then one byte with one descriptor for
// every connection. Its end is the end of the box.

// maxFrame bounds the plan and the answer.
const maxFrame = 8 << 20

// errControl is what the box says when the other end sent nonsense.
var errControl = errors.New("control socket: a byte came without a descriptor")

func writeFrame(w io.Writer, data []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

func readFrame(r io.Reader, max uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > max {
		return nil, fmt.Errorf("frame of %d bytes is longer than %d", n, max)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}

// pair returns a connected pair of stream sockets: ours as a connection, theirs as a file.
func pair() (*net.UnixConn, *os.File, error) {
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

// control is the host's end.
type control struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

// begin sends the plan, with the image's mount where image is not negative, and waits
// until deadline for the box to be ready. The text of a box that is not is the error.
func (c *control) begin(p plan, image int, deadline time.Time) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the plan of a box: %w", err)
	}
	if len(raw) > maxFrame {
		return fmt.Errorf("the plan of a box has %d bytes, more than %d: too large an environment", len(raw), maxFrame)
	}
	c.conn.SetDeadline(deadline)
	defer c.conn.SetDeadline(time.Time{})
	if err := writeFrame(c.conn, raw); err != nil {
		return fmt.Errorf("send its plan to the box: %w", err)
	}
	if image >= 0 {
		if _, _, err := c.conn.WriteMsgUnix([]byte{0}, unix.UnixRights(image), nil); err != nil {
			return fmt.Errorf("send its image to the box: %w", err)
		}
	}
	answer, err := readFrame(c.conn, 64<<10)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the box did not get ready in time (does the program call namespace.Main first?)")
	}
	if err != nil {
		return fmt.Errorf("the box ended while it was set up: %w", err)
	}
	if len(answer) > 0 {
		return fmt.Errorf("set up the box: %s", answer)
	}
	return nil
}

// dial opens a connection to the box.
func (c *control) dial() (net.Conn, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a box that does not take it must not hang us
	if _, _, err := c.conn.WriteMsgUnix([]byte{1}, unix.UnixRights(int(theirs.Fd())), nil); err != nil {
		ours.Close()
		return nil, fmt.Errorf("connect to the box: %w", err)
	}
	return ours, nil
}

// inherited is the box's end. It is a net.Listener whose connections are those that the
// host passes. Accept blocks a thread, so that nothing in the box can keep it from
// seeing the end of the host.
type inherited struct{ fd int }

func (l inherited) Accept() (net.Conn, error) {
	fd, err := l.receive()
	if err != nil {
		os.Exit(0) // no orderly end: the kernel ends what is left with pid 1
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// receive waits for the next descriptor; io.EOF says that the host is gone.
func (l inherited) receive() (int, error) {
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(l.fd, data[:], oob, unix.MSG_CMSG_CLOEXEC)
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
			return -1, errControl
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return -1, errControl
		}
		return fds[0], nil
	}
}

func (l inherited) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(l.fd, p)
		if err == unix.EINTR {
			continue
		}
		if n == 0 && err == nil {
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

func (l inherited) Write(p []byte) (int, error) { return unix.Write(l.fd, p) }

// Close implements net.Listener; the socket itself lives as long as the box.
func (l inherited) Close() error { return nil }

// Addr implements net.Listener.
func (l inherited) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "inherited"} }

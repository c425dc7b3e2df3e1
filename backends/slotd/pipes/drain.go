package pipes

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reader is one output of a command while it is read. A child in the background may hold
// its pipe long after the command's end, so reading goes on, but only what the command
// itself can have written belongs to its result.
type Reader struct {
	f       *os.File
	settled chan struct{} // all that lay in the pipe at the command's end has been read
}

// pipeGrace is how long the output of a command is waited for after its end.
const pipeGrace = 100 * time.Millisecond

// chunk is how much of an output is read at once.
const chunk = 16 << 10

// Read begins to read f; it is closed at its end.
func (s *Streams) Read(f *os.File, to io.Writer) *Reader {
	x := &Reader{f: f, settled: make(chan struct{})}
	s.Keep(f)
	go func() {
		buf := s.buffers.Get().(*[chunk]byte)
		defer s.buffers.Put(buf)
		plain := struct{ io.Reader }{f}            // a file's own WriteTo would make a buffer each time
		_, err := io.CopyBuffer(to, plain, buf[:]) // a terminal ends with EIO
		if errors.Is(err, os.ErrDeadlineExceeded) {
			x.rest(to)
			close(x.settled)
			io.CopyBuffer(to, plain, buf[:])
		} else {
			close(x.settled)
		}
		s.Drop(f)
	}()
	return x
}

// Settle waits, after the command's end, until its output is complete: the pipe's end, or
// what lies in it after a short grace. It does not depend on how soon the reader gets a
// processor.
func (s *Reader) Settle() {
	if err := s.f.SetReadDeadline(time.Now().Add(pipeGrace)); err != nil { // a file without deadlines, or closed
		timer := time.NewTimer(pipeGrace)
		defer timer.Stop()
		select {
		case <-s.settled:
		case <-timer.C:
		}
		return
	}
	<-s.settled
}

// rest reads what lies in the pipe now, without waiting for more. A pipe holds 1 MiB at
// most; who writes faster than that is read cannot keep us here.
func (s *Reader) rest(to io.Writer) {
	if s.f.SetReadDeadline(time.Time{}) != nil {
		return
	}
	raw, err := s.f.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for left := 1 << 20; left > 0; {
		n, rerr := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			n, rerr = unix.Read(int(fd), buf)
			return true
		})
		if errors.Is(rerr, unix.EINTR) {
			continue
		}
		if err != nil || rerr != nil || n <= 0 {
			return
		}
		to.Write(buf[:n])
		left -= n
	}
}

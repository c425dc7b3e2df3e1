package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// FrameWriter writes whole frames to one connection from many goroutines.
type FrameWriter struct {
	mu     sync.Mutex
	to     io.Writer
	failed func(error) // called for the first error
}

// NewFrameWriter writes to a connection; failed is called for each error.
func NewFrameWriter(to io.Writer, failed func(error)) *FrameWriter {
	return &FrameWriter{to: to, failed: failed}
}

// Writer writes frames of one kind.
func (f *FrameWriter) Writer(kind byte) *ChunkWriter { return &ChunkWriter{f: f, kind: kind} }

// Send writes one frame.
func (f *FrameWriter) Send(kind byte, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := WriteFrame(f.to, kind, data)
	if err != nil {
		f.failed(err)
	}
	return err
}

// ChunkWriter is a framer's writer of one kind of frame.
type ChunkWriter struct {
	f      *FrameWriter
	kind   byte
	hungUp atomic.Bool // the other end wants no more
}

func (c *ChunkWriter) Write(p []byte) (n int, err error) {
	for len(p) > n {
		if c.hungUp.Load() {
			return n, io.ErrClosedPipe
		}
		part := p[n:min(len(p), n+MaxChunk)]
		if err := c.f.Send(c.kind, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// HangUp ends the writer that a frame of type FrameHangUp names: the other end wants no more of it.
func (c *ChunkWriter) HangUp(named []byte) {
	if bytes.Equal(named, []byte{c.kind}) {
		c.hungUp.Store(true)
	}
}

// The types of frames.
const (
	FrameOut byte = 1 + iota
	FrameErr
	FrameExit
	FrameBeat
	FrameError
	FrameCommand // to the server: the command of a stream
	FrameIn      // to the server: input of a streamed command
	FrameInEnd   // to the server: the end of its input
	FrameHangUp  // to the server: the type of output that is not wanted any more
	FrameKept    // what the kept file of a command holds at its end
)

// WriteFrame writes one frame.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// ReadFrame reads one frame of at most most bytes.
func ReadFrame(r io.Reader, most int64) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > most {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d were asked for", n, most)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

package cmd

import (
	"fmt"
	"io"
)

// stdin is our standard input for reading to its end. The first signal ends a read that
// waits for somebody to write, with [ErrInterrupted]; nothing may be read after that.
func (h *host) stdin() io.Reader {
	if h.Stdio.In == nil {
		return nil
	}
	return &interruptedReader{in: h.Stdio.In, stop: h.Signals.Drain()}
}

type interruptedReader struct {
	in   io.Reader
	stop <-chan struct{}
	buf  []byte
}

// Read reads into its own buffer: a read that is given up may still end later.
func (r *interruptedReader) Read(p []byte) (int, error) {
	select {
	case <-r.stop:
		return 0, ErrInterrupted
	default:
	}
	if r.buf == nil {
		r.buf = make([]byte, 64<<10)
	}
	type result struct {
		n   int
		err error
	}
	buf := r.buf[:min(len(p), len(r.buf))]
	done := make(chan result, 1)
	go func() { // ends with the read, at the latest with the process
		n, err := r.in.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.stop:
		return 0, ErrInterrupted
	}
}

// readStdin reads all of stdin, which must not hold more than limit bytes.
func (h *host) readStdin(limit int64) ([]byte, error) {
	in := h.stdin()
	if in == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it holds more than %d bytes", limit)
	}
	if err != nil {
		return nil, Usage("read stdin: %w", err)
	}
	return data, nil
}

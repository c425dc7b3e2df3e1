package slotd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hermes/backends"
)

// maxChunk bounds a frame of a streamed command, either way.
const maxChunk = 1 << 20

// framer writes whole frames to one connection from many goroutines.
type framer struct {
	mu     sync.Mutex
	to     io.Writer
	failed func(error) // called for the first error
}

// newFramer writes to a connection; failed is called for each error.
func newFramer(to io.Writer, failed func(error)) *framer { return &framer{to: to, failed: failed} }

// writer writes frames of one kind.
func (f *framer) writer(kind byte) *chunks { return &chunks{f: f, kind: kind} }

// send writes one frame.
func (f *framer) send(kind byte, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := writeFrame(f.to, kind, data)
	if err != nil {
		f.failed(err)
	}
	return err
}

// chunks is a framer's writer of one kind of frame.
type chunks struct {
	f      *framer
	kind   byte
	hungUp atomic.Bool // the other end wants no more
}

func (c *chunks) Write(p []byte) (n int, err error) {
	for len(p) > n {
		if c.hungUp.Load() {
			return n, io.ErrClosedPipe
		}
		part := p[n:min(len(p), n+maxChunk)]
		if err := c.f.send(c.kind, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// hangUp ends the writer that a frame of type frameHangUp names: the other end wants no more of it.
func (c *chunks) hangUp(named []byte) {
	if bytes.Equal(named, []byte{c.kind}) {
		c.hungUp.Store(true)
	}
}

// stream runs a command on a connection of its own: frames of input come in, frames of
// output go out. The command ends with the connection.
func (s *server) stream(w http.ResponseWriter, r *http.Request) error {
	if err := s.h.alive(r.Context(), "stream"); err != nil {
		return err
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	if !s.h.keep(conn) {
		return nil
	}
	defer s.h.drop(conn)
	conn.SetDeadline(time.Time{})
	fmt.Fprint(conn, switching)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	out := newFramer(conn, cancel)
	kind, body, err := readFrame(buf, 4+maxRequest)
	if err != nil || kind != frameCommand {
		return nil // whoever it is does not speak the protocol
	}
	c, _, err := decodeCommand(body)
	if err != nil {
		sendResult(conn, backends.Result{}, err)
		return nil
	}
	input, feed := io.Pipe()
	stdout, stderr := out.writer(frameOut), out.writer(frameErr)
	left := make(chan struct{}) // closed when the client is gone
	go func() {
		defer close(left)
		cancel(takeInput(buf, feed, stdout, stderr))
	}()
	stop := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() { beat(out, stop) })
	res, err := s.h.Stream(ctx, c, backends.Streams{In: input, Out: stdout, Err: stderr})
	close(stop)
	beats.Wait()
	input.Close()
	sendResult(conn, res, err)
	linger(conn, left)
	return nil
}

// lingerTime bounds how long a client that has its answer may take to leave.
const lingerTime = 30 * time.Second

// linger ends our direction of a connection and waits until the client, who has read the
// end by then, ends its own. A connection that is closed while something of the client
// lies in it unread is reset, and what we sent last is thrown away with it.
func linger(conn net.Conn, left <-chan struct{}) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	late := time.NewTimer(lingerTime)
	defer late.Stop()
	select {
	case <-left:
	case <-late.C:
	}
}

// takeInput passes frames of input on. It ends when the connection does.
func takeInput(from io.Reader, to *io.PipeWriter, outputs ...*chunks) error {
	for {
		kind, data, err := readFrame(from, maxChunk)
		switch {
		case err != nil:
			to.CloseWithError(err)
			return context.Canceled
		case kind == frameIn:
			to.Write(data) // an error says that the command reads no more
		case kind == frameInEnd:
			to.Close()
		case kind == frameHangUp:
			for _, o := range outputs {
				o.hangUp(data)
			}
		}
	}
}

// beat sends heartbeats, which find out that the client is gone while its input waits.
func beat(to *framer, stop <-chan struct{}) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if to.send(frameBeat, nil) != nil {
				return
			}
		}
	}
}

// Stream implements backends.Streamer on a connection of its own.
func (c *Client) Stream(ctx context.Context, cmd backends.Cmd, s backends.Streams) (backends.Result, error) {
	const what = "stream"
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("%s: %w", what, err)
	}
	cmd.Dir, cmd.Stdin = c.path(cmd.Dir), nil
	body, err := encodeCommand(cmd, backends.StartOptions{})
	if err != nil {
		return backends.Result{}, err
	}
	own, cancel := c.bind(ctx)
	defer cancel(nil)
	conn, err := c.upgrade(own, what, "stream")
	if err != nil {
		return backends.Result{}, c.lost(ctx, what, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(own, func() { conn.Close() })
	defer stop()
	out := newFramer(conn, func(error) {})
	if out.send(frameCommand, body) == nil { // what is wrong shows when we read
		go giveInput(out, s.In)
	}
	return c.takeOutput(ctx, what, conn, out, s, func() { cancel(errors.New("no sign of life")) })
}

func giveInput(to *framer, in io.Reader) {
	if in != nil {
		io.Copy(to.writer(frameIn), in)
	}
	to.send(frameInEnd, nil)
}

// writerOr is w, or nowhere.
func writerOr(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// takeOutput passes the frames of a streamed command on to their writers.
func (c *Client) takeOutput(ctx context.Context, what string, conn io.Reader, back *framer, s backends.Streams, silent func()) (r backends.Result, err error) {
	watch := time.AfterFunc(silence, silent)
	defer watch.Stop()
	writers := map[byte]io.Writer{frameOut: writerOr(s.Out), frameErr: writerOr(s.Err)}
	broken := map[byte]bool{}
	for {
		kind, data, err := readFrame(conn, maxChunk)
		if err != nil {
			return r, c.lost(ctx, what, err)
		}
		watch.Stop()
		switch kind {
		case frameOut, frameErr:
			if _, err := writers[kind].Write(data); err != nil && !broken[kind] {
				broken[kind] = true
				back.send(frameHangUp, []byte{kind})
			}
		case frameExit:
			if err := fill(&r, data); err != nil {
				return backends.Result{}, c.lost(ctx, what, err)
			}
			return r, nil
		case frameError:
			var f fault
			if err := json.Unmarshal(data, &f); err != nil {
				return r, c.lost(ctx, what, err)
			}
			return r, c.fromFault(ctx, what, "", f)
		case frameBeat:
		default:
			return r, c.lost(ctx, what, fmt.Errorf("frame of unknown type %d", kind))
		}
		watch.Reset(silence)
	}
}

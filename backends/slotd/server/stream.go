//go:build linux

package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// stream runs a command on a separate connection: frames of input come in, frames of
// output go out. The command ends with the connection.
func (s *server) stream(w http.ResponseWriter, r *http.Request) error {
	if err := s.h.Alive(r.Context(), "stream"); err != nil {
		return err
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	if !s.h.Keep(conn) {
		return nil
	}
	defer s.h.Drop(conn)
	conn.SetDeadline(time.Time{})
	fmt.Fprint(conn, wire.Switching)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	out := wire.NewFrameWriter(conn, cancel)
	kind, body, err := wire.ReadFrame(buf, 4+wire.MaxRequest)
	if err != nil || kind != wire.FrameCommand {
		return nil // whoever it is does not speak the protocol
	}
	c, _, err := wire.DecodeCommand(body)
	if err != nil {
		sendResult(conn, backends.Result{}, err)
		return nil
	}
	input, feed := io.Pipe()
	stdout, stderr := out.Writer(wire.FrameOut), out.Writer(wire.FrameErr)
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
	awaitClose(conn, left)
	return nil
}

// leaveTime bounds how long a client that has its answer may take to leave.
const leaveTime = 30 * time.Second

// awaitClose ends our direction of a connection and waits until the client, who has read the
// end by then, ends its own. A connection that is closed while something of the client
// lies in it unread is reset, and what we sent last is thrown away with it.
func awaitClose(conn net.Conn, left <-chan struct{}) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	late := time.NewTimer(leaveTime)
	defer late.Stop()
	select {
	case <-left:
	case <-late.C:
	}
}

// takeInput passes frames of input on. It ends when the connection does.
func takeInput(from io.Reader, to *io.PipeWriter, outputs ...*wire.ChunkWriter) error {
	for {
		kind, data, err := wire.ReadFrame(from, wire.MaxChunk)
		switch {
		case err != nil:
			to.CloseWithError(err)
			return context.Canceled
		case kind == wire.FrameIn:
			to.Write(data) // an error says that the command reads no more
		case kind == wire.FrameInEnd:
			to.Close()
		case kind == wire.FrameHangUp:
			for _, o := range outputs {
				o.HangUp(data)
			}
		}
	}
}

// beat sends heartbeats, which find out that the client is gone while its input waits.
func beat(to *wire.FrameWriter, stop <-chan struct{}) {
	tick := time.NewTicker(wire.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if to.Send(wire.FrameBeat, nil) != nil {
				return
			}
		}
	}
}

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// Stream implements backends.Streamer on a separate connection.
func (c *Client) Stream(ctx context.Context, cmd backends.Cmd, s backends.Streams) (backends.Result, error) {
	const what = "stream"
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("%s: %w", what, err)
	}
	cmd.Dir, cmd.Stdin = c.path(cmd.Dir), nil
	body, err := wire.EncodeCommand(cmd, backends.StartOptions{})
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
	out := wire.NewFrameWriter(conn, func(error) {})
	if out.Send(wire.FrameCommand, body) == nil { // what is wrong shows when we read
		go giveInput(out, s.In)
	}
	return c.takeOutput(ctx, what, conn, out, s, func() { cancel(errors.New("no sign of life")) })
}

func giveInput(to *wire.FrameWriter, in io.Reader) {
	if in != nil {
		io.Copy(to.Writer(wire.FrameIn), in)
	}
	to.Send(wire.FrameInEnd, nil)
}

// writerOr is w, or nowhere.
func writerOr(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// takeOutput passes the frames of a streamed command on to their writers.
func (c *Client) takeOutput(ctx context.Context, what string, conn io.Reader, back *wire.FrameWriter, s backends.Streams, silent func()) (r backends.Result, err error) {
	watch := time.AfterFunc(wire.Silence, silent)
	defer watch.Stop()
	writers := map[byte]io.Writer{wire.FrameOut: writerOr(s.Out), wire.FrameErr: writerOr(s.Err)}
	broken := map[byte]bool{}
	for {
		kind, data, err := wire.ReadFrame(conn, wire.MaxChunk)
		if err != nil {
			return r, c.lost(ctx, what, err)
		}
		watch.Stop()
		switch kind {
		case wire.FrameOut, wire.FrameErr:
			if _, err := writers[kind].Write(data); err != nil && !broken[kind] {
				broken[kind] = true
				back.Send(wire.FrameHangUp, []byte{kind})
			}
		case wire.FrameExit:
			if err := fill(&r, data); err != nil {
				return backends.Result{}, c.lost(ctx, what, err)
			}
			return r, nil
		case wire.FrameError:
			var f wire.Fault
			if err := json.Unmarshal(data, &f); err != nil {
				return r, c.lost(ctx, what, err)
			}
			return r, c.fromFault(ctx, what, "", f)
		case wire.FrameBeat:
		default:
			return r, c.lost(ctx, what, fmt.Errorf("frame of unknown type %d", kind))
		}
		watch.Reset(wire.Silence)
	}
}

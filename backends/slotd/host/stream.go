//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/pipes"
)

// Stream implements backends.Streamer.
func (h *Host) Stream(ctx context.Context, c backends.Cmd, s backends.Streams) (backends.Result, error) {
	if err := h.Alive(ctx, "stream"); err != nil {
		return backends.Result{}, err
	}
	began := time.Now()
	p, err := pipes.NewEnds(s.In != nil, c.Merge)
	if err != nil {
		return backends.Result{}, fmt.Errorf("pipes of a command: %w", err)
	}
	out, errs := &gate{to: s.Out}, &gate{to: s.Err}
	t, err := h.launch(ctx, c, stdio{Files: p.Child})
	p.CloseChild()
	if err != nil {
		p.CloseOurs()
		var r pipes.Refusal
		if !errors.As(err, &r) {
			return backends.Result{}, err
		}
		res := pipes.Refused(c, r, began)
		out.Write(res.Stdout)
		errs.Write(res.Stderr)
		res.Stdout, res.Stderr = nil, nil
		return res, nil
	}
	reads := []*pipes.Reader{h.streams.Read(p.Out, out)}
	if p.Err != nil {
		reads = append(reads, h.streams.Read(p.Err, errs))
	}
	if p.In != nil {
		h.streams.Keep(p.In)
		go func() {
			io.Copy(p.In, s.In)
			h.streams.Drop(p.In)
		}()
	}
	timedOut, err := h.follow(ctx, t, c.Timeout)
	for _, r := range reads {
		r.Settle()
	}
	if p.In != nil {
		h.streams.Drop(p.In)
	}
	outBytes, errBytes := out.shut(), errs.shut()
	if err != nil {
		return backends.Result{}, fmt.Errorf("stream: %w", err)
	}
	r := h.result(t, timedOut)
	r.Took = time.Since(began)
	r.OutBytes = outBytes
	r.ErrBytes = errBytes
	return r, nil
}

// gate passes a stream on until it is shut, and counts it. What a background process
// writes later goes nowhere.
type gate struct {
	mu    sync.Mutex
	to    io.Writer // nil: nowhere
	n     int64
	ended bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return len(p), nil
	}
	g.n += int64(len(p))
	if g.to == nil {
		return len(p), nil
	}
	return g.to.Write(p)
}

// shut ends the passing on and gives the count.
func (g *gate) shut() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	return g.n
}

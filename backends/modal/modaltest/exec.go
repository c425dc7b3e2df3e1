package modaltest

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// command is a command of a sandbox.
type command struct {
	feed *io.PipeWriter
	mu   sync.Mutex // of input
	have uint64     // bytes of input that were taken
	eof  bool
	outs [2]*outbox
	over chan struct{}
	end  wire.ExecEnd
}

// task finds the sandbox of a task whose router's token the caller has.
func (f *Fake) task(ctx context.Context, id string) (*sandbox, error) {
	if caller(ctx) != id {
		return nil, status.Error(codes.PermissionDenied, "the token is another task's")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if s.task == id {
			if s.ended() {
				return nil, status.Errorf(codes.Unavailable, "task '%s' is gone", id)
			}
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "Task '%s' not found", id)
}

func (f *Fake) command(ctx context.Context, task, id string) (*sandbox, *command, error) {
	s, err := f.task(ctx, task)
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c := s.execs[id]
	if c == nil {
		return nil, nil, status.Errorf(codes.NotFound, "Exec '%s' not found", id)
	}
	return s, c, nil
}

// maxArgs bounds the arguments of a command, as the service does.
const maxArgs = 64 << 10

func (f *Fake) execStart(ctx context.Context, in *wire.ExecStart) (*wire.Empty, error) {
	s, err := f.task(ctx, in.TaskID)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, a := range in.Args {
		size += len(a)
	}
	if size > maxArgs || len(in.Args) == 0 || in.ExecID == "" || in.Stdout != wire.Pipe || in.Stderr != wire.Pipe {
		return nil, status.Errorf(codes.InvalidArgument, "%d arguments of %d bytes, exec id '%s'", len(in.Args), size, in.ExecID)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.execs[in.ExecID] != nil {
		return &wire.Empty{}, nil
	}
	input, feed := io.Pipe()
	c := &command{feed: feed, over: make(chan struct{}), outs: [2]*outbox{newOutbox(), newOutbox()}}
	s.execs[in.ExecID] = c
	f.work.Go(func() { f.exec(s, c, in.Args, input) })
	return &wire.Empty{}, nil
}

// exec runs a command. It ends with its sandbox.
func (f *Fake) exec(s *sandbox, c *command, argv []string, input *io.PipeReader) {
	ctx, cancel := context.WithCancel(f.life)
	defer cancel()
	f.work.Go(func() {
		select {
		case <-s.over:
			cancel()
			c.outs[0].close()
			c.outs[1].close()
		case <-c.over:
		}
	})
	<-s.placed
	r, err := run(ctx, s.box, backends.Cmd{Argv: argv}, backends.Streams{In: input, Out: c.outs[0], Err: c.outs[1]})
	input.CloseWithError(errors.New("the command has ended"))
	code, signal := int32(r.Code), int32(r.Signal)
	switch {
	case err != nil:
		code = 137
		fallthrough
	case signal == 0:
		c.end.Code = &code
	default:
		c.end.Signal = &signal
	}
	c.outs[0].close()
	c.outs[1].close()
	close(c.over)
}

func (f *Fake) stdinWrite(ctx context.Context, in *wire.StdinWrite) (*wire.Empty, error) {
	_, c, err := f.command(ctx, in.TaskID, in.ExecID)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Offset > c.have {
		return nil, status.Errorf(codes.OutOfRange, "input from %d on, but only %d bytes came before", in.Offset, c.have)
	}
	if known := c.have - in.Offset; known < uint64(len(in.Data)) {
		n, err := c.feed.Write(in.Data[known:])
		c.have += uint64(n)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	if in.EOF && !c.eof {
		c.eof = true
		c.feed.Close()
	}
	return &wire.Empty{}, nil
}

func (f *Fake) execWait(ctx context.Context, in *wire.ExecWait) (*wire.ExecEnd, error) {
	s, c, err := f.command(ctx, in.TaskID, in.ExecID)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.over:
		return &c.end, nil
	case <-s.over:
		return nil, status.Error(codes.Unavailable, "the sandbox has ended")
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// stdioRead sends output from an offset on. It breaks when somebody wants it to, or with
// the sandbox.
func (f *Fake) stdioRead(ctx context.Context, in *wire.StdioRead, send func(*wire.StdioChunk) error) error {
	s, c, err := f.command(ctx, in.TaskID, in.ExecID)
	if err != nil {
		return err
	}
	broken, piece := f.faults.streams()
	off, sent := in.Offset, int64(0)
	for {
		data, end, changed, ok := c.outs[in.Descriptor&1].from(off)
		switch {
		case !ok:
			return status.Errorf(codes.OutOfRange, "output from %d on is not kept any more", off)
		case len(data) > 0:
			if piece > 0 {
				data = data[:min(int64(len(data)), piece-sent)]
			}
			if err := send(&wire.StdioChunk{Data: data}); err != nil {
				return err
			}
			off, sent = off+uint64(len(data)), sent+int64(len(data))
			if piece > 0 && sent >= piece {
				return status.Error(codes.Unavailable, "the stream was cut")
			}
			continue
		case end && s.ended():
			return status.Error(codes.Unavailable, "the sandbox has ended")
		case end:
			return nil
		}
		select {
		case <-changed:
		case <-broken:
			return status.Error(codes.Unavailable, "the stream was cut")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// What an outbox keeps behind its reader, how far its writer may be before it, and how
// much goes into one message.
const (
	behind = 4 << 20
	ahead  = 1 << 20
	chunk  = 64 << 10
)

// outbox is an output that is read by offset.
type outbox struct {
	mu      sync.Mutex
	first   uint64 // offset of data
	data    []byte
	read    uint64 // offset up to which it was read
	ended   bool
	changed chan struct{} // closed at the next change
}

func newOutbox() *outbox { return &outbox{changed: make(chan struct{})} }

// change says that something happened. The outbox is locked.
func (o *outbox) change() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// Write implements io.Writer. It waits for a reader that is far behind.
func (o *outbox) Write(p []byte) (int, error) {
	for {
		o.mu.Lock()
		if o.ended {
			o.mu.Unlock()
			return 0, io.ErrClosedPipe
		}
		if o.first+uint64(len(o.data)) < o.read+ahead {
			o.data = append(o.data, p...)
			o.change()
			o.mu.Unlock()
			return len(p), nil
		}
		changed := o.changed
		o.mu.Unlock()
		<-changed
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		o.change()
	}
}

// from gives what is there from an offset on. end says that no more will come.
func (o *outbox) from(off uint64) (data []byte, end bool, changed <-chan struct{}, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.first + uint64(len(o.data))
	if off < o.first || off > last {
		return nil, false, nil, false
	}
	data = append(data, o.data[off-o.first:min(off-o.first+chunk, uint64(len(o.data)))]...)
	if next := off + uint64(len(data)); next > o.read {
		o.read = next
		o.change()
	}
	if o.read > o.first+2*behind {
		cut := o.read - behind - o.first
		o.data, o.first = append([]byte{}, o.data[cut:]...), o.first+cut
	}
	return data, o.ended && len(data) == 0, o.changed, true
}

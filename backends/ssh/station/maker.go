//go:build linux

package station

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// maker makes the boxes of a station.
type maker interface {
	Traits() backends.Traits
	// make makes a box that is reached by the socket at path.
	make(ctx context.Context, id, path string, s backends.Spec) (*made, error)
	// Close ends all boxes.
	Close(ctx context.Context) error
}

// made is a box.
type made struct {
	Box
	health func(context.Context) error
	close  func(context.Context) error
}

func newMaker(ctx context.Context, s Setup) (maker, error) {
	if s.Isolation == Plain {
		// Commands share our account; they need not read tokens in this process.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("hide the station's memory: %w", err)
		}
		return &plain{dir: s.Dir}, nil
	}
	b, err := namespace.Open(ctx, s.Namespace, newPasser)
	if err != nil {
		return nil, err
	}
	return isolated{b}, nil
}

// isolated makes boxes of namespaces.
type isolated struct{ *namespace.Backend }

func (i isolated) make(ctx context.Context, id, path string, s backends.Spec) (*made, error) {
	x, err := i.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	server, ok := backends.As[*passer](x)
	if !ok {
		return nil, errors.Join(fmt.Errorf("box %s has no server that could be reached", x.ID()), x.Close(context.WithoutCancel(ctx)))
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, errors.Join(err, x.Close(context.WithoutCancel(ctx)))
	}
	p := &passing{to: server.Dial}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p.all.Go(func() { p.serve(life, l) })
	return &made{Box: Box{ID: id, Socket: path},
		health: server.health,
		close: func(ctx context.Context) error {
			l.Close()
			err := x.Close(ctx)
			end()
			p.all.Wait()
			return err
		}}, nil
}

// passing passes connections on.
type passing struct {
	to  func(context.Context) (net.Conn, error)
	all sync.WaitGroup
}

func (p *passing) serve(life context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.join(life, c) })
	}
}

// join copies both ways until both ends are reached or life ends. What the client says
// can come too late: a box that has answered and left takes no more of it. That must not
// end the other direction, in which the answer may still be under way.
func (p *passing) join(life context.Context, c net.Conn) {
	defer c.Close()
	box, err := p.to(life)
	if err != nil {
		return
	}
	defer box.Close()
	stop := context.AfterFunc(life, func() { c.Close(); box.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(box, c)
		shutWrite(box)
		io.Copy(io.Discard, c) // what the box takes no more, until the client has its answer and leaves
	}()
	if _, err := io.Copy(c, box); err != nil { // no client reads it any more, or the box is gone
		c.Close()
		box.Close()
	}
	shutWrite(c)
	<-done
}

// shutWrite passes the end of one direction on.
func shutWrite(c net.Conn) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		w.CloseWrite()
	}
}

// plain makes boxes of processes of the account. They are distinguished by the variable
// wire.MarkEnv alone.
type plain struct {
	dir  string
	held backends.Held[*plainBox]
}

// plainBox is a slotd in this process.
type plainBox struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error
	base  string
	once  sync.Once
}

// Traits are those of local boxes, but for where they are.
func (p *plain) Traits() backends.Traits {
	return backends.Traits{Network: "host", MemoryBy: "rlimit", Root: os.Geteuid() == 0, PTY: true,
		Notes: []string{"isolation is switched off: commands run as the account that was logged in to, for trusted work only",
			"memory is limited for each process alone; processes, CPUs and disk are not limited"}}
}

func (p *plain) make(ctx context.Context, id, path string, s backends.Spec) (*made, error) {
	_, end, err := p.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if s.Image != "" {
		return nil, fmt.Errorf("image %q: boxes without isolation have no images: %w", s.Image, backends.ErrImage)
	}
	x := &plainBox{base: path + ".d", ended: make(chan struct{})}
	home, tmp := filepath.Join(x.base, "home"), filepath.Join(x.base, "tmp")
	for _, d := range []string{x.base, home, tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(err, trees.RemoveAll(x.base))
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		if err := os.MkdirAll(filepath.Join(home, s.Dir), 0o755); err != nil {
			return nil, errors.Join(err, trees.RemoveAll(x.base))
		}
	}
	env := map[string]string{"PATH": wire.DefaultPath, "TMPDIR": tmp}
	maps.Copy(env, s.Env)
	o := server.Options{Token: rand.Text(), Options: host.Options{ID: id, Home: home, Dir: s.Dir, Env: env, Resets: true, Scratch: []string{tmp}}}
	if s.Limits.Memory > 0 {
		o.Rlimits = []host.Rlimit{{Resource: unix.RLIMIT_DATA, Value: uint64(s.Limits.Memory)}}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, errors.Join(err, trees.RemoveAll(x.base))
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	x.stop = stop
	p.held.Add(x)
	go func() {
		defer close(x.ended)
		x.err = server.Serve(life, l, o)
	}()
	return &made{Box: Box{ID: id, Socket: path, Token: o.Token}, health: x.health, close: func(ctx context.Context) error { return p.closing(ctx, x) }}, nil
}

func (x *plainBox) health(context.Context) error {
	select {
	case <-x.ended:
		return fmt.Errorf("the server of the box ended: %w: %w", backends.ErrLost, x.err)
	default:
		return nil
	}
}

// closing ends the processes of a box and removes its folder.
func (p *plain) closing(ctx context.Context, x *plainBox) error {
	x.stop()
	select {
	case <-x.ended:
	case <-ctx.Done():
		return fmt.Errorf("close a box: %w", context.Cause(ctx))
	}
	p.held.Drop(x)
	var err error
	x.once.Do(func() { err = errors.Join(x.err, trees.RemoveAll(x.base)) })
	return err
}

// Close implements maker.
func (p *plain) Close(ctx context.Context) error { return p.held.Close(ctx, p.closing) }

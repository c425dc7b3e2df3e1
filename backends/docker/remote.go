package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"hermes/backends/slotd/client"
	"hermes/backends/slotd/wire"
)

// alone is the time without calls after which a box of a distant engine ends.
const alone = 10 * time.Minute

// copy makes the box with slotd copied into it, for engines that cannot see our files.
func (x *box) copy(ctx context.Context, s wire.Setup, config *container.Config, host *container.HostConfig) error {
	x.token = rand.Text()
	s.Token, s.Alone = x.token, x.back.alone
	config.Cmd = []string{"box", "--listen", socketPath, "--setup", setupPath}
	close(x.started)
	if err := x.create(ctx, config, host); err != nil {
		return err
	}
	archive, err := x.upload(s)
	if err != nil {
		return err
	}
	web := x.back.engine.web
	if err := web.CopyToContainer(ctx, x.name, "/", archive, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("copy slotd into the container: %w", err)
	}
	if err := web.ContainerStart(ctx, x.name, container.StartOptions{}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := x.answering(ctx); err != nil {
		return err
	}
	life, end := context.WithCancel(context.Background())
	x.ended = end
	go x.keep(life)
	return nil
}

// upload is what is copied into a container: slotd and its setup.
func (x *box) upload(s wire.Setup) (io.Reader, error) {
	program, err := os.ReadFile(x.back.server)
	if err != nil {
		return nil, fmt.Errorf("read slotd: %w", err)
	}
	setup, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{inside + "/", 0o700, nil}, {serverPath, 0o755, program}, {setupPath, 0o600, setup}} {
		h := &tar.Header{Name: strings.TrimPrefix(f.name, "/"), Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	return &out, w.Close()
}

// answering waits for slotd in a container that was just started.
func (x *box) answering(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTime, fmt.Errorf("slotd did not answer within %v", setupTime))
	defer cancel()
	probe := client.New(x.dialExec, client.Options{ID: x.name, Token: x.token})
	defer probe.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := probe.Health(ctx)
		if err == nil {
			return nil
		}
		c, ierr := x.back.engine.web.ContainerInspect(ctx, x.name)
		if ierr == nil && c.State != nil && !c.State.Running {
			return fmt.Errorf("its first process ended at once (exit code %d) %s", c.State.ExitCode, c.State.Error)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// keep calls slotd now and then, so that it knows that its maker lives: only calls with
// the token count.
func (x *box) keep(ctx context.Context) {
	probe := client.New(x.dialExec, client.Options{ID: x.name, Token: x.token})
	defer probe.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(x.back.alone / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			call, cancel := context.WithTimeout(ctx, x.back.alone/4)
			probe.Stat(call, "/") // what is wrong shows when the box is used
			cancel()
		}
	}
}

// dialExec connects to slotd by the engine's exec.
func (x *box) dialExec(ctx context.Context) (net.Conn, error) {
	web := x.back.engine.web
	made, err := web.ContainerExecCreate(ctx, x.name, container.ExecOptions{User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{serverPath, "dial", socketPath}})
	if err != nil {
		return nil, fmt.Errorf("connect to the box: %w", err)
	}
	h, err := web.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, fmt.Errorf("connect to the box: %w", err)
	}
	c := &execConn{Conn: h.Conn, h: h}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	hello := make([]byte, len(wire.Hello))
	n, err := io.ReadFull(c, hello)
	if err != nil || string(hello) != wire.Hello {
		rest := make([]byte, 500)
		m, _ := c.Read(rest)
		c.Close()
		return nil, fmt.Errorf("connect to the box: the engine says %q (%w)", append(hello[:n], rest[:m]...), errOr(err, io.ErrUnexpectedEOF))
	}
	return c, nil
}

// execConn is a connection over the streams of an exec.
type execConn struct {
	net.Conn
	h    types.HijackedResponse
	left uint32 // of the frame that is being read
	said []byte // what the program complained about
}

// Read implements net.Conn. The engine frames both outputs: stream, three zeros, length.
func (c *execConn) Read(p []byte) (int, error) {
	for c.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(c.h.Reader, head[:]); err != nil {
			if len(c.said) > 0 {
				err = fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, c.said)
			}
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[4:])
		if head[0] > 2 || head[1]|head[2]|head[3] != 0 {
			return 0, fmt.Errorf("the engine's stream has no frame at %q", head)
		}
		if head[0] == 1 {
			c.left = n
			continue
		}
		text, err := io.ReadAll(io.LimitReader(c.h.Reader, int64(n)))
		if err != nil {
			return 0, err
		}
		c.said = append(c.said, text[:min(len(text), 1000-min(len(c.said), 1000))]...)
	}
	n, err := c.h.Reader.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	return n, err
}

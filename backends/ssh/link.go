package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// link is the way to the host: one connection that is made again when it broke.
type link struct {
	conf  Config
	route []hop
	keys  *keyring

	turn  chan struct{} // held by whoever looks at or changes what follows
	now   *connection
	ever  bool
	until time.Time // no new attempt before
	why   error     // of the last one
}

// connection is a chain of clients, the last of which is the host.
type connection struct {
	*ssh.Client
	chain []*ssh.Client
	gone  chan struct{} // closed when it has broken
}

// refusal is an error that trying again will not mend.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func newLink(c Config, route []hop, keys *keyring) *link {
	return &link{conf: c, route: route, keys: keys, turn: make(chan struct{}, 1)}
}

// get returns the connection and makes it where there is none. A connection that has broken is
// tried again for a while. For two seconds after that has failed, get returns the error at once.
func (l *link) get(ctx context.Context) (*connection, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.now != nil {
		select {
		case <-l.now.gone:
			l.now = nil
		default:
			return l.now, nil
		}
	}
	if time.Now().Before(l.until) {
		return nil, l.why
	}
	end := time.Now().Add(l.conf.Reconnect)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		c, err := l.connect(ctx)
		if err == nil {
			l.now, l.ever = c, true
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if errors.As(err, new(refusal)) || !l.ever || time.Now().Add(pause).After(end) {
			if l.ever {
				l.until, l.why = time.Now().Add(2*time.Second), err
			}
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// proven returns a connection that has answered just now. One that does not answer may be
// broken without a report of it so far: it is closed and made again.
func (l *link) proven(ctx context.Context) (*connection, error) {
	c, err := l.get(ctx)
	if err != nil || c.alive(l.conf.Timeout) {
		return c, err
	}
	c.close()
	<-c.gone
	return l.get(ctx)
}

// connect goes along the route.
func (l *link) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.conf.Timeout, fmt.Errorf("no connection within %v", l.conf.Timeout))
	defer cancel()
	signers, forget, err := l.keys.signers(ctx)
	if err != nil {
		return nil, refusal{err}
	}
	defer forget()
	c := &connection{gone: make(chan struct{})}
	for i, h := range l.route {
		next, err := l.step(ctx, c.Client, h, i == len(l.route)-1, signers)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect to %s: %w", h, err)
		}
		c.Client, c.chain = next, append(c.chain, next)
	}
	go func() {
		c.Client.Wait()
		c.close()
		close(c.gone)
	}()
	return c, nil
}

// step makes the connection to one host, through the one before it.
func (l *link) step(ctx context.Context, via *ssh.Client, h hop, last bool, signers []ssh.Signer) (*ssh.Client, error) {
	check, kinds, err := l.conf.judge(h, last)
	if err != nil {
		return nil, refusal{err}
	}
	var conn net.Conn
	if via == nil {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", h.addr)
	} else {
		conn, err = via.DialContext(ctx, "tcp", h.addr)
	}
	if err != nil {
		return nil, errors.Join(err, ctxCause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, channels, requests, err := ssh.NewClientConn(conn, h.addr, &ssh.ClientConfig{User: h.user, HostKeyCallback: check, HostKeyAlgorithms: kinds,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, ClientVersion: "SSH-2.0-hermes"})
	if err == nil && !stop() {
		c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, explain(err, h, l.keys, ctxCause(ctx))
	}
	return ssh.NewClient(c, channels, requests), nil
}

func ctxCause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// explain tells of a handshake that failed what can be done about it.
func explain(err error, h hop, k *keyring, cause error) error {
	switch {
	case errors.Is(err, errHostKey):
		return refusal{err}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return refusal{fmt.Errorf("the host takes none of our keys for user %s (%s): add a public key to that user's authorized_keys, or name another key (keys:): %w",
			h.user, strings.Join(k.names, ", "), err)}
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		return refusal{fmt.Errorf("%w: the host has no key of the kinds that are known of it: %w", errHostKey, err)}
	}
	return errors.Join(err, cause)
}

// close breaks the connection, hosts in front last.
func (c *connection) close() {
	for i := len(c.chain) - 1; i >= 0; i-- {
		c.chain[i].Close()
	}
}

// errBroken is what waits on a connection that has broken end with.
var errBroken = errors.New("the connection has broken")

// ask makes a call of the library that opens a channel, and waits no longer than the
// connection lives. The library's own wait has no end when the connection breaks just as
// the channel is opened; then what is left is one goroutine of the library.
func ask[T io.Closer](ctx context.Context, c *connection, open func() (T, error)) (made T, err error) {
	type answer struct {
		made T
		err  error
	}
	answers, left := make(chan answer), make(chan struct{})
	defer close(left)
	go func() {
		x, err := open()
		select {
		case answers <- answer{x, err}:
		case <-left:
			if err == nil {
				x.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.made, a.err
	case <-c.gone:
		return made, errBroken
	case <-ctx.Done():
		return made, context.Cause(ctx)
	}
}

// socket connects to a socket on the host.
func (c *connection) socket(ctx context.Context, path string) (net.Conn, error) {
	return ask(ctx, c, func() (net.Conn, error) { return c.Dial("unix", path) })
}

// alive asks the host for a sign of life.
func (c *connection) alive(patience time.Duration) bool {
	done := make(chan error, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		done <- err
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-done:
		return err == nil
	case <-late.C:
		return false
	case <-c.gone:
		return false
	}
}

// close ends the link.
func (l *link) close() {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.now != nil {
		l.now.close()
		<-l.now.gone
		l.now = nil
	}
}

// dial connects to a socket on the host.
func (l *link) dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.socket(ctx, path)
	var open *ssh.OpenChannelError
	if err != nil && !errors.As(err, &open) && ctx.Err() == nil { // not the host's answer: the connection has broken
		c, err = l.proven(ctx)
		if err != nil {
			return nil, err
		}
		conn, err = c.socket(ctx, path)
	}
	if errors.As(err, &open) && open.Reason == ssh.Prohibited {
		return nil, refusal{fmt.Errorf("the host does not forward to sockets (AllowStreamLocalForwarding in its sshd_config must not be no): %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s on the host: %w", path, err)
	}
	return &channel{Conn: conn}, nil
}

// channel is a connection inside of the link. Deadlines, which the library has not, end
// it.
type channel struct {
	net.Conn
	mu   sync.Mutex
	late *time.Timer
}

// SetDeadline implements net.Conn: a time in the past ends the connection.
func (c *channel) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
	}
	if !t.IsZero() {
		c.late = time.AfterFunc(time.Until(t), func() { c.Conn.Close() })
	}
	return nil
}

// CloseWrite ends one direction.
func (c *channel) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// maxAnswer bounds what a script on the host may say.
const maxAnswer = 1 << 20

// script runs a script of ours on the host in a separate session. What varies comes by
// its input: nothing is put together for a shell to read.
func (c *connection) script(ctx context.Context, text string, in io.Reader) (string, error) {
	s, err := ask(ctx, c, c.NewSession)
	if err != nil {
		return "", fmt.Errorf("open a session: %w", err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	var out, errs bounded
	s.Stdin = in
	s.Stdout = &out
	s.Stderr = &errs
	err = s.Run("/bin/sh -c '" + text + "'")
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxAnswer-b.Len()))])
	return len(p), nil
}

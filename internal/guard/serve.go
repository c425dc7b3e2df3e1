package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Running is a server that listens.
type Running struct {
	URL  string // without the token
	done chan error
}

// Wait returns when the server has shut down.
func (r *Running) Wait() error { return <-r.done }

// Serve listens and serves h behind the guard until ctx ends; requests in flight are then
// finished, for the grace at most.
func (g *Guard) Serve(ctx context.Context, h http.Handler) (*Running, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(g.opt.Host, strconv.Itoa(g.opt.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen on %s port %d: %w (is another server there? then take another port)", g.opt.Host, g.opt.Port, err)
	}
	return g.On(ctx, l, h), nil
}

// The bounds of a request before its body.
const (
	maxHeader  = 64 << 10
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// On is Serve with a listener that is open. It takes the listener over.
func (g *Guard) On(ctx context.Context, l net.Listener, h http.Handler) *Running {
	c := newCrowd(l, g.opt.Most)
	srv := &http.Server{Handler: g.Wrap(h), ReadHeaderTimeout: g.opt.Header, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnState: c.watch, ConnContext: withGuest}
	r := &Running{URL: "http://" + l.Addr().String(), done: make(chan error, 1)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(c) }()
	go func() {
		var err error
		select {
		case err = <-served:
		case <-ctx.Done():
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.Grace)
			if srv.Shutdown(wait) != nil {
				srv.Close() // what is still open has had its time
			}
			cancel()
			err = <-served
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		r.done <- err
	}()
	return r
}

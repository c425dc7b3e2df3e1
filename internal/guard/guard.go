// Package guard stands in front of our servers: it binds to the loopback unless told
// otherwise, demands a token or an allowed address elsewhere, bounds bodies, answers
// /healthz and shuts down cleanly.
//
// A [Guard] is safe for concurrent use.
package guard

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Options say who may come in.
type Options struct {
	Host     string         // address or name to listen on; "" means 127.0.0.1
	Port     int            // 0 takes a free one
	Token    string         // demanded as "Authorization: Bearer TOKEN" or as path prefix /t/TOKEN
	Allow    []netip.Prefix // addresses that may come in; the loopback always may
	Insecure bool           // let everybody in on any address
	MaxBody  int64          // bytes of a request's body; 0 means 64 MiB
	Healthy  func() error   // asked by /healthz; nil is always healthy
}

// Guard lets requests through or not.
type Guard struct {
	opt Options
}

// New refuses an address beyond the loopback without a token, allowed addresses or
// Insecure.
func New(o Options) (*Guard, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 64 << 20
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("port %d is not in 0…65535", o.Port)
	}
	if strings.ContainsAny(o.Token, "/ ?#%") {
		return nil, errors.New("the token has a character that cannot stand in a path; use letters and digits")
	}
	if !Loopback(o.Host) && o.Token == "" && len(o.Allow) == 0 && !o.Insecure {
		return nil, fmt.Errorf("host %s can be reached from other machines; say who may come in with --token TEXT, --allow CIDR, or --insecure for everybody", o.Host)
	}
	return &Guard{opt: o}, nil
}

// Loopback reports whether a host to listen on can be reached from this machine alone.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// Wrap puts the guard in front of a handler.
func (g *Guard) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			g.health(w)
			return
		}
		if status, text := g.refuse(r); status != 0 {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, text, status)
			return
		}
		if rest, ok := g.prefixed(r.URL.Path); ok && g.opt.Token != "" {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = rest, ""
		}
		r.Body = http.MaxBytesReader(w, r.Body, g.opt.MaxBody)
		h.ServeHTTP(w, r)
	})
}

func (g *Guard) health(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if g.opt.Healthy != nil {
		if err := g.opt.Healthy(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "{\"status\":\"failing\",\"error\":%s}\n", strconv.QuoteToASCII(err.Error()))
			return
		}
	}
	fmt.Fprintln(w, `{"status":"ok"}`)
}

// refuse says why a request may not come in, 0 when it may.
func (g *Guard) refuse(r *http.Request) (int, string) {
	if len(g.opt.Allow) > 0 && !g.allowed(r.RemoteAddr) {
		return http.StatusForbidden, "this address is not allowed to come in (--allow)"
	}
	if g.opt.Token == "" {
		return 0, ""
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		token, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/t/"), "/")
		ok = strings.HasPrefix(r.URL.Path, "/t/")
	}
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(g.opt.Token)) != 1 {
		return http.StatusUnauthorized, "send the server's token: \"Authorization: Bearer TOKEN\", or /t/TOKEN in front of the path"
	}
	return 0, ""
}

func (g *Guard) allowed(remote string) bool {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	a := ap.Addr().Unmap()
	for _, p := range g.opt.Allow {
		if p.Contains(a) {
			return true
		}
	}
	return a.IsLoopback()
}

// prefixed cuts /t/TOKEN off a path.
func (g *Guard) prefixed(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/t/"+g.opt.Token)
	if !ok || rest != "" && rest[0] != '/' {
		return path, false
	}
	if rest == "" {
		rest = "/"
	}
	return rest, true
}

// Running is a server that listens.
type Running struct {
	URL  string // without the token
	done chan error
}

// Wait returns when the server has shut down.
func (r *Running) Wait() error { return <-r.done }

// grace is how long requests may go on after the end was asked for.
const grace = 10 * time.Second

// Serve listens and serves h behind the guard until ctx ends; requests in flight are then
// finished, for ten seconds at most.
func (g *Guard) Serve(ctx context.Context, h http.Handler) (*Running, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(g.opt.Host, strconv.Itoa(g.opt.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen on %s port %d: %w (is another server there? --port takes another one)", g.opt.Host, g.opt.Port, err)
	}
	srv := &http.Server{Handler: g.Wrap(h), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	r := &Running{URL: "http://" + l.Addr().String(), done: make(chan error, 1)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	go func() {
		var err error
		select {
		case err = <-served:
		case <-ctx.Done():
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
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
	return r, nil
}

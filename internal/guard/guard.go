// Package guard is in front of our servers: it binds to the loopback by default,
// demands a token or an allowed address elsewhere, keeps out the pages that a
// browser shows, bounds bodies, connections and how long both may take, answers /healthz
// and shuts down cleanly.
//
// A browser is a way in that is easily forgotten: every page that a person opens may send
// requests to the loopback and to the machines beside it. So a request is let through only
// when its Host header names this server (a foreign name is DNS rebinding) and when no page
// of another origin has sent it, unless that origin is in a list.
//
// A [Guard] is safe for concurrent use.
package guard

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrOpen is the error of a host beyond the loopback without a word on who may come in.
var ErrOpen = errors.New("can be reached from other machines")

// Options say who may come in.
type Options struct {
	Host     string         // address or name to listen on; "" means 127.0.0.1
	Port     int            // 0 takes a free one
	Token    string         // demanded as "Authorization: Bearer TOKEN" or as path prefix /t/TOKEN
	Allow    []netip.Prefix // addresses that may come in; the loopback always may
	Insecure bool           // let everybody in on any address
	Names    []string       // names beside its own by which the server may be asked for, without port
	Origins  []string       // of pages that may read and write, such as http://localhost:3000
	MaxBody  int64          // bytes of a request's body; 0 means 64 MiB
	Healthy  func() error   // asked by /healthz; nil is always healthy

	Header time.Duration // in which the header of a request must come; 0 means 10 seconds
	Window time.Duration // in which a body must bring 160 KiB or end; 0 means 10 seconds
	Most   int           // connections at once; 0 means what the system's limit on open files allows, 16,384 at most
	Grace  time.Duration // how long requests may go on after the end was asked for; 0 means 10 seconds
}

// Guard lets requests through or not.
type Guard struct {
	opt     Options
	last    atomic.Pointer[string] // name that was asked for and is ours
	local   bool                   // only this machine reaches the server
	alone   bool                   // there are no flags that let others in
	names   map[string]bool        // in small letters
	origins map[string]bool
}

// New refuses an address beyond the loopback without a token, allowed addresses or
// Insecure.
func New(o Options) (*Guard, error) {
	o.Host = cmp.Or(o.Host, "127.0.0.1")
	if o.MaxBody <= 0 {
		o.MaxBody = 64 << 20
	}
	if o.Header <= 0 {
		o.Header = headerTime
	}
	if o.Window <= 0 {
		o.Window = 10 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	if o.Most <= 0 {
		o.Most = max(1, min(16384, openFiles()*3/4))
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("port %d is not in 0…65535", o.Port)
	}
	if strings.ContainsAny(o.Token, "/ ?#%") {
		return nil, errors.New("the token has a character that cannot be in a path; use letters and digits")
	}
	g := &Guard{opt: o, local: Loopback(o.Host), names: map[string]bool{}, origins: map[string]bool{}}
	if !g.local && o.Token == "" && len(o.Allow) == 0 && !o.Insecure {
		return nil, fmt.Errorf("host %s %w; say who may come in with --token TEXT, --allow CIDR, or --insecure for everybody", o.Host, ErrOpen)
	}
	for _, name := range o.Names {
		host, err := hostName(name)
		if err != nil {
			return nil, err
		}
		g.names[host] = true
	}
	for _, text := range o.Origins {
		origin, err := originOf(text)
		if err != nil {
			return nil, err
		}
		g.origins[origin] = true
	}
	return g, nil
}

// Local is a guard of pages for this machine alone, whose listener [Listen] has opened.
// grace is how long requests may go on after the end was asked for.
func Local(grace time.Duration) *Guard {
	g, err := New(Options{Grace: grace})
	if err != nil {
		panic(err) // nothing is asked of it that it could refuse
	}
	g.alone = true
	return g
}

// Loopback reports whether a host to listen on can be reached from this machine alone.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// outside is the key of the part of a path that was cut off, in a request's context.
type outside struct{}

// Path is how the client of r names one of the server's paths: with the token in front
// where its own request had it. It is for redirects and links.
func Path(r *http.Request, path string) string {
	prefix, _ := r.Context().Value(outside{}).(string)
	return prefix + path
}

// Wrap puts the guard in front of a handler.
func (g *Guard) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shield(w.Header())
		bearer, path := g.token(r)
		if !g.enter(w, r, bearer || path) {
			return
		}
		if path {
			prefix := "/t/" + g.opt.Token
			rest := strings.TrimPrefix(r.URL.Path, prefix)
			rest = cmp.Or(rest, "/")
			u := *r.URL
			u.Path, u.RawPath = rest, ""
			r = r.WithContext(context.WithValue(r.Context(), outside{}, prefix))
			r.URL = &u
		}
		if r.ContentLength != 0 {
			p := g.pace(w, r)
			r.Body = http.MaxBytesReader(w, p, g.opt.MaxBody)
			defer p.end()
		}
		h.ServeHTTP(w, r)
	})
}

// enter lets a request in, or answers it and reports false. proved: it has the token.
func (g *Guard) enter(w http.ResponseWriter, r *http.Request, proved bool) bool {
	if !proved && !g.named(r.Host) {
		text := fmt.Sprintf("%.200q is no name of this server; ask for it by its address, or start it with --allow-host and the name", r.Host)
		if g.alone {
			text = "this page is for this machine: ask for it by a loopback address"
		}
		g.refuse(w, r, http.StatusForbidden, text)
		return false
	}
	origin, ok := g.origin(r)
	if !ok {
		text := "a page of another origin has sent this; --allow-origin ORIGIN lets the pages of one in"
		if g.alone {
			text = "this page is not for other pages: type its address"
		}
		g.refuse(w, r, http.StatusForbidden, text)
		return false
	}
	if origin != "" && g.cors(w, r, origin) {
		return false
	}
	switch {
	case r.URL.Path == "/healthz":
		g.health(w)
		return false
	case len(g.opt.Allow) > 0 && !g.allowed(r.RemoteAddr):
		g.refuse(w, r, http.StatusForbidden, "this address is not allowed to come in (--allow)")
		return false
	case g.opt.Token != "" && !proved:
		w.Header().Set("WWW-Authenticate", "Bearer")
		g.refuse(w, r, http.StatusUnauthorized, "send the server's token: \"Authorization: Bearer TOKEN\", or /t/TOKEN in front of the path")
		return false
	}
	return true
}

// refuse answers without reading the body, and ends the connection where there is one.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	http.Error(w, text, status)
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

// token reports where a request has the right token: as bearer, in its path.
func (g *Guard) token(r *http.Request) (bearer, path bool) {
	if g.opt.Token == "" {
		return false, false
	}
	same := func(text string) bool { return subtle.ConstantTimeCompare([]byte(text), []byte(g.opt.Token)) == 1 }
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		bearer = same(text)
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/t/"); ok {
		text, _, _ := strings.Cut(rest, "/")
		path = same(text)
	}
	return bearer, path
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

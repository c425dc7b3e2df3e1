// Package modaltest is Modal for tests: the part of its gRPC protocol that boxes need,
// on the loopback, over sandboxes whose commands really run in boxes of another back-end.
//
// The fake keeps the traps of the service: every call needs its tokens, which expire;
// commands are reached by a router with its own token; streams are read and written
// by offset and may break at any byte; a call repeated with its idempotency key, and a
// name that is in use, make no second sandbox; an answer can be lost after the work was
// done; lists come in pages; sandboxes end by time-outs, quotas refuse. A command cannot be
// ended by a call, and its end by a time-out looks like a signal.
//
// A Fake is safe for concurrent use.
package modaltest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// Options describe a service. Boxes and Tokens are needed.
type Options struct {
	Boxes   backends.Backend  // where sandboxes run; those with network are refused
	Tokens  map[string]string // secrets by token id; each id is its own workspace
	Images  []string          // names that registries have
	Private map[string]string // user:password by the name of an image that needs them
	Files   map[string][]byte // programs that every image has, by path
	Page    int               // sandboxes in one answer of a list; 0: 100
	Second  time.Duration     // how long a second of a sandbox's time-outs takes; 0: a second
	Life    time.Duration     // of tokens; 0: an hour
}

// Fake is one service with all of its sandboxes.
type Fake struct {
	opt     Options
	address string
	server  *grpc.Server
	life    context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu        sync.Mutex
	serial    int
	tokens    map[string]string    // of calls, and of routers: whose they are
	ends      map[string]time.Time // of tokens
	apps      map[string]string    // ids by workspace, environment and name
	owners    map[string]string    // workspaces by app
	secrets   map[string]map[string]string
	images    map[string]*image
	sandboxes map[string]*sandbox
	done      map[string]*once // calls by idempotency key
	quota     map[string]int
	faults    faults
	calls     map[string]int
	seen      map[string]string // metadata of the last call of each name, for tests
}

// once is the answer to a call that is not to be done twice.
type once struct {
	ready  chan struct{}
	answer any
	err    error
}

// New starts a service. Close ends it.
func New(o Options) (*Fake, error) {
	o.Page, o.Second, o.Life = cmp.Or(o.Page, 100), cmp.Or(o.Second, time.Second), cmp.Or(o.Life, time.Hour)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Fake{opt: o, address: "http://" + l.Addr().String(), tokens: map[string]string{}, ends: map[string]time.Time{}, apps: map[string]string{},
		owners: map[string]string{}, secrets: map[string]map[string]string{}, images: map[string]*image{}, sandboxes: map[string]*sandbox{},
		done: map[string]*once{}, quota: map[string]int{}, calls: map[string]int{}, seen: map[string]string{}}
	f.faults = faults{next: map[string][]fault{}, broken: make(chan struct{})}
	f.life, f.stop = context.WithCancel(context.Background())
	f.server = grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(100<<20), grpc.MaxConcurrentStreams(100),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	for _, d := range f.services() {
		f.server.RegisterService(d, f)
	}
	f.work.Go(func() { f.server.Serve(l) })
	return f, nil
}

// Address is the URL of the service.
func (f *Fake) Address() string { return f.address }

// Close ends the service and every sandbox.
func (f *Fake) Close() {
	f.stop()
	f.mu.Lock()
	var all []*sandbox
	for _, s := range f.sandboxes {
		all = append(all, s)
	}
	f.mu.Unlock()
	for _, s := range all {
		f.end(s, wire.Result{Status: wire.StatusInternal, Exception: "the service was closed"})
	}
	f.server.Stop()
	f.work.Wait()
}

// id makes an id of the service's form. The fake is locked.
func (f *Fake) id(kind string) string {
	f.serial++
	return fmt.Sprintf("%s-%022d", kind, f.serial)
}

// issue makes a token that says when it ends, as the service's do. The fake is locked.
func (f *Fake) issue(whose string) string {
	end := time.Now().Add(f.opt.Life)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	token := strings.Join([]string{part(`{"alg":"none"}`), part(fmt.Sprintf(`{"exp":%d}`, end.Unix())), rand.Text()}, ".")
	f.tokens[token], f.ends[token] = whose, end
	return token
}

// Expire makes every token that was given out invalid.
func (f *Fake) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.tokens)
}

// SetQuota bounds the sandboxes that a token may have at once; -1: none is bounded.
func (f *Fake) SetQuota(token string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quota[token] = n
	if n < 0 {
		delete(f.quota, token)
	}
}

// Revoke makes a token's secret wrong, as its owner may.
func (f *Fake) Revoke(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opt.Tokens[token] = rand.Text()
	for t, whose := range f.tokens {
		if whose == token {
			delete(f.tokens, t)
		}
	}
}

// Calls counts the calls of a name that came.
func (f *Fake) Calls(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// Seen is what metadata of a name the last call with it had.
func (f *Fake) Seen(meta string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[meta]
}

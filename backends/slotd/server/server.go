//go:build linux

package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/wire"
)

// Options describe a server and the host behind it.
type Options struct {
	host.Options
	Token string // bearer token that every call but health needs; empty: none
	// Leases makes Token the administrator's: it gives out leases, and a call about the
	// box needs the token of the lease that is in force.
	Leases bool
	// Orphan ends the server after this time without any call that was authorized. 0: never.
	Orphan time.Duration
	// Ready is called when the host is made, before the first connection is accepted. Its
	// error ends Serve. It may be nil.
	Ready func() error
}

// server is a Host behind HTTP.
type server struct {
	h      *host.Host
	token  [32]byte
	open   bool
	execs  *execs
	boot   string
	began  time.Time
	leases *leaseTable  // nil without leases
	last   atomic.Int64 // when an authorized call came or was under way, as time since began
	calls  atomic.Int64 // under way
}

// Serve answers on l until ctx ends, and then ends every process of the box. It
// returns nil when it was ctx that ended it.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	h, err := host.New(o.Options)
	if err != nil {
		l.Close()
		return err
	}
	s := &server{h: h, token: sha256.Sum256([]byte(o.Token)), open: o.Token == "", execs: newExecs(), boot: wire.NewID(), began: time.Now()}
	for i, a := range o.Adopt {
		if err := s.adopt(ctx, a, h.AdoptedTask(i)); err != nil {
			l.Close()
			return errors.Join(err, h.Close(context.WithoutCancel(ctx)))
		}
	}
	if o.Ready != nil {
		if err := o.Ready(); err != nil {
			l.Close()
			return errors.Join(err, h.Close(context.WithoutCancel(ctx)))
		}
	}
	ctx, drained := context.WithCancel(ctx)
	defer drained()
	if o.Leases {
		s.leases = newLeaseTable(s, drained)
		defer s.leases.close()
	}
	if o.Orphan > 0 {
		go s.orphan(ctx, o.Orphan, drained)
	}
	web := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	err = web.Serve(l)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	closed := h.Close(end)
	s.execs.wait()
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, closed)
}

// right is what a call needs to be allowed.
type right func(*server, *http.Request) (status int)

// table finds calls by method and path, as "GET /v1/exec/{id}". A box lives for milliseconds,
// of which building an http.ServeMux would take one in ten.
type table map[string]http.HandlerFunc

// ServeHTTP implements http.Handler.
func (t table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	if len(parts) > 3 {
		id, err := url.PathUnescape(parts[3])
		if err == nil && id != "" {
			r.SetPathValue("id", id)
			parts[3] = "{id}"
		}
	}
	call, ok := t[r.Method+" "+strings.Join(parts, "/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	call(w, r)
}

// routes is the table of calls.
func (s *server) routes() http.Handler {
	t := table{"GET /v1/health": s.health}
	s.add(t, (*server).mayUse, map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/info":               s.info,
		"POST /v1/exec/{id}":         s.exec,
		"GET /v1/exec/{id}":          s.attach,
		"POST /v1/exec/{id}/signal":  s.signal,
		"DELETE /v1/exec/{id}":       s.cancel,
		"POST /v1/stream":            s.stream,
		"GET /v1/file":               s.getFile,
		"PUT /v1/file":               s.putFile,
		"GET /v1/tar":                s.getTar,
		"PUT /v1/tar":                s.putTar,
		"GET /v1/stat":               s.stat,
		"GET /v1/list":               s.list,
		"POST /v1/search":            s.search,
		"POST /v1/process":           s.start,
		"GET /v1/process/{id}":       s.output,
		"GET /v1/process/{id}/wait":  s.wait,
		"PUT /v1/process/{id}/stdin": s.stdin,
		"PUT /v1/process/{id}/size":  s.resize,
		"DELETE /v1/process/{id}":    s.kill,
		"POST /v1/forward":           s.forward,
	})
	s.add(t, (*server).mayAdminister, map[string]func(http.ResponseWriter, *http.Request) error{"POST /v1/reset": s.reset})
	if s.leases != nil {
		s.add(t, (*server).mayAdminister, map[string]func(http.ResponseWriter, *http.Request) error{
			"POST /v1/leases":            s.leases.take,
			"POST /v1/leases/{id}/renew": s.leases.renew,
			"DELETE /v1/leases/{id}":     s.leases.giveBack,
			"POST /v1/drain":             s.leases.drain,
		})
	}
	return t
}

// add enters calls that need a right.
func (s *server) add(t table, may right, calls map[string]func(http.ResponseWriter, *http.Request) error) {
	for pattern, f := range calls {
		t[pattern] = func(w http.ResponseWriter, r *http.Request) {
			r = r.WithContext(s.h.WithTurn(r.Context()))
			if status := may(s, r); status != 0 {
				http.Error(w, http.StatusText(status), status)
				return
			}
			s.calls.Add(1)
			defer func() {
				s.last.Store(int64(time.Since(s.began)))
				s.calls.Add(-1)
			}()
			err := checkProto(r)
			if err == nil {
				err = f(w, r)
			}
			if err != nil {
				sendFault(w, err)
			}
		}
	}
}

// checkProto refuses a caller that speaks a later version.
func checkProto(r *http.Request) error {
	v := r.Header.Get(wire.ProtoHeader)
	if n, err := strconv.Atoi(v); v != "" && (err != nil || n > wire.Proto) {
		return fmt.Errorf("the caller speaks protocol %q, this slotd %d: %w", v, wire.Proto, backends.ErrUnavailable)
	}
	return nil
}

// bearer is the digest of the token that came with a call.
func bearer(r *http.Request) ([32]byte, bool) {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return sha256.Sum256([]byte(got)), ok
}

// mayAdminister compares tokens in constant time.
func (s *server) mayAdminister(r *http.Request) int {
	sum, ok := bearer(r)
	if s.open || ok && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 {
		return 0
	}
	return http.StatusUnauthorized
}

// mayUse asks for the token of the lease, where there are leases.
func (s *server) mayUse(r *http.Request) int {
	if s.leases == nil {
		return s.mayAdminister(r)
	}
	sum, _ := bearer(r)
	return s.leases.admit(sum)
}

// orphan ends a server after a time without calls.
func (s *server) orphan(ctx context.Context, after time.Duration, end func()) {
	for {
		left := after - (time.Since(s.began) - time.Duration(s.last.Load()))
		if s.calls.Load() > 0 {
			left = after
		}
		if left <= 0 {
			end()
			return
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

// reset makes the box as new.
func (s *server) reset(w http.ResponseWriter, r *http.Request) error {
	if s.leases != nil {
		return fmt.Errorf("reset: a leased box is reset by the end of its lease: %w", errors.ErrUnsupported)
	}
	done, err := s.clean(r.Context(), backends.Level(r.URL.Query().Get("level")))
	if err != nil {
		return err
	}
	return sendJSON(w, done)
}

// clean resets the host and forgets results that belong to whoever had it before.
func (s *server) clean(ctx context.Context, l backends.Level) (backends.Cleaned, error) {
	done, err := s.h.Reset(ctx, l)
	if err == nil || done.Took > 0 { // also one that its caller did not wait for
		s.execs.forget()
	}
	return done, err
}

// sendFault answers with an error: 422, so that no proxy takes it for its own.
func sendFault(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	json.NewEncoder(w).Encode(wire.ToFault(err))
}

func sendJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error here is the client's going away
	return nil
}

func (s *server) health(w http.ResponseWriter, r *http.Request) {
	h := wire.Health{OK: true, Proto: wire.Proto, Boot: s.boot, Execs: s.execs.running(), Uptime: time.Since(s.began).Milliseconds()}
	if s.leases != nil {
		h.Free, h.Dirty = s.leases.state()
	}
	sendJSON(w, h)
}

func (s *server) info(w http.ResponseWriter, r *http.Request) error { return sendJSON(w, s.h.Info()) }

// readCommand reads the body of exec and start.
func readCommand(r *http.Request) (body []byte, c backends.Cmd, o backends.StartOptions, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, 4+wire.MaxRequest+wire.MaxStdin+backends.MaxKept))
	if err == nil {
		c, o, err = wire.DecodeCommand(body)
	}
	if err != nil {
		err = fmt.Errorf("read command: %w", err)
	}
	return body, c, o, err
}

// number reads a parameter of the query; absent means 0.
func number(r *http.Request, name string) (int64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parameter %s: %w", name, err)
	}
	return n, nil
}

// beatUntil sends a heartbeat now and then while done is open.
func beatUntil(w http.ResponseWriter, r *http.Request, done <-chan struct{}) error {
	w.Header().Set("Content-Type", "application/x-hermes-frames")
	c := http.NewResponseController(w)
	select {
	case <-done: // no need for a separate packet
		return nil
	default:
	}
	tick := time.NewTicker(wire.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		case <-tick.C:
			if err := errors.Join(wire.WriteFrame(w, wire.FrameBeat, nil), c.Flush()); err != nil {
				return err
			}
		}
	}
}

// sendResult writes outputs and the exit frame, or an error frame.
func sendResult(w io.Writer, r backends.Result, err error) {
	if err != nil {
		text, _ := json.Marshal(wire.ToFault(err))
		wire.WriteFrame(w, wire.FrameError, text)
		return
	}
	text, _ := json.Marshal(wire.ExitOf(r))
	for kind, data := range map[byte][]byte{wire.FrameOut: r.Stdout, wire.FrameErr: r.Stderr, wire.FrameKept: r.Kept} {
		for len(data) > 0 {
			n := min(len(data), 1<<20)
			if wire.WriteFrame(w, kind, data[:n]) != nil {
				return
			}
			data = data[n:]
		}
	}
	wire.WriteFrame(w, wire.FrameExit, text)
}

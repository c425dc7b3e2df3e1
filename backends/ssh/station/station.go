//go:build linux

package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hermes/backends"
	"hermes/backends/trees"
)

// Bounds of a station.
const (
	maxOrder  = 8 << 20
	endTime   = 30 * time.Second
	stateTime = 5 * time.Second
	maxLinger = 24 * time.Hour
)

// station serves one client.
type station struct {
	setup Setup
	maker maker
	began time.Time
	last  atomic.Int64 // when the client called, as time since began
	stop  func()
	once  sync.Once
	err   error // of the end

	mu    sync.Mutex
	boxes map[uint64]*held // nil: it was asked to be gone before it was made
}

// held is a box with its socket.
type held struct {
	ready  chan struct{} // closed when made is set, or will never be
	cancel context.CancelFunc
	made   *made
}

// run serves until the client ends it or is not heard of any more.
func run(ctx context.Context, s Setup, say func(Ready) error) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.Dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		return err
	}
	defer trees.RemoveAll(s.Dir)
	if err := writeCard(s); err != nil {
		return err
	}
	m, err := newMaker(ctx, s)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	st := &station{setup: s, maker: m, began: time.Now(), stop: stop, boxes: map[uint64]*held{}}
	control := filepath.Join(s.Dir, controlName)
	l, err := net.Listen("unix", control)
	if err != nil {
		return errors.Join(err, st.end())
	}
	web := &http.Server{Handler: st.routes(), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10}
	shut := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(shut)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTime) // for the answer to the call that ended us
		defer cancel()
		web.Shutdown(last)
		web.Close()
	})
	go st.listen(ctx)
	if err := say(Ready{Control: control, Traits: m.Traits()}); err != nil {
		stop()
	}
	if err := web.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, st.end())
	}
	err = st.end()
	<-shut
	return err
}

// end closes every box and removes the folder.
func (st *station) end() error {
	st.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		st.err = errors.Join(st.maker.Close(ctx), trees.RemoveAll(st.setup.Dir))
	})
	return st.err
}

// check refuses a setup that cannot work.
func (s Setup) check() error {
	switch {
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("folder %q of the station is not an absolute path", s.Dir)
	case s.ID == "" || filepath.Base(s.ID) != s.ID:
		return fmt.Errorf("name %q of the station: want a plain file name", s.ID)
	case s.Linger <= 0 || s.Linger > maxLinger:
		return fmt.Errorf("linger time %v: want more than 0 and at most %v", s.Linger, maxLinger)
	case s.Isolation != Isolated && s.Isolation != Plain:
		return fmt.Errorf("isolation %q: neither %s nor %s", s.Isolation, Isolated, Plain)
	case len(filepath.Join(s.Dir, strconv.FormatUint(1<<63, 10))) > maxSocket:
		return fmt.Errorf("folder %s of the station: sockets in it would have longer names than the %d bytes that the system takes; name a shorter dir", s.Dir, maxSocket)
	}
	return nil
}

// maxSocket is the longest name of a socket.
const maxSocket = 107

// listen ends the station when its client is not heard of.
func (st *station) listen(ctx context.Context) {
	for {
		left := st.setup.Linger - (time.Since(st.began) - time.Duration(st.last.Load()))
		if left <= 0 {
			st.stop()
			return
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

// routes is the table of calls.
func (st *station) routes() http.Handler {
	m := http.NewServeMux()
	add := func(pattern string, call func(*http.Request) (any, error)) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			st.last.Store(int64(time.Since(st.began)))
			answer, err := call(r)
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				w.WriteHeader(http.StatusUnprocessableEntity)
				answer = faultOf(err)
			}
			json.NewEncoder(w).Encode(answer) // a client that left is no fault of ours
		})
	}
	add("GET /v1/ping", func(*http.Request) (any, error) { return struct{}{}, nil })
	add("POST /v1/boxes", st.open)
	add("GET /v1/boxes/{number}", st.state)
	add("DELETE /v1/boxes/{number}", st.close)
	add("GET /v1/stations", func(*http.Request) (any, error) { return others(st.setup) })
	add("DELETE /v1/stations/{id}", func(r *http.Request) (any, error) {
		return struct{}{}, remove(r.Context(), st.setup, r.PathValue("id"))
	})
	add("POST /v1/end", func(*http.Request) (any, error) {
		defer st.stop()
		return struct{}{}, st.end()
	})
	return m
}

// open makes a box. It goes again when the client leaves before it has the answer.
func (st *station) open(r *http.Request) (any, error) {
	var o Order
	if err := json.NewDecoder(io.LimitReader(r.Body, maxOrder)).Decode(&o); err != nil {
		return nil, fmt.Errorf("read the order of a box: %w", err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	h := &held{ready: make(chan struct{}), cancel: cancel}
	st.mu.Lock()
	_, taken := st.boxes[o.Number]
	if !taken {
		st.boxes[o.Number] = h
	}
	st.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("box %d was asked for before: %w", o.Number, backends.ErrClosed)
	}
	defer close(h.ready)
	x, err := st.maker.make(ctx, st.setup.ID+"-"+strconv.FormatUint(o.Number, 10), filepath.Join(st.setup.Dir, strconv.FormatUint(o.Number, 10)), o.Spec)
	if err != nil {
		st.forget(o.Number)
		return nil, err
	}
	if ctx.Err() != nil {
		st.forget(o.Number)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		return nil, errors.Join(ctx.Err(), x.close(end))
	}
	h.made = x
	return x.Box, nil
}

func (st *station) forget(number uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.boxes, number)
}

// find is a box by the number in a call's path; nil where there is none.
func (st *station) find(r *http.Request) (uint64, *held, error) {
	n, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("box %q: %w", r.PathValue("number"), err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return n, st.boxes[n], nil
}

// state says of a box whose connection broke whether it lives: no error, or why not.
func (st *station) state(r *http.Request) (any, error) {
	n, h, err := st.find(r)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, fmt.Errorf("box %d: %w", n, backends.ErrLost)
	}
	<-h.ready
	if h.made == nil {
		return nil, fmt.Errorf("box %d: %w", n, backends.ErrLost)
	}
	ctx, cancel := context.WithTimeout(r.Context(), stateTime)
	defer cancel()
	return struct{}{}, h.made.health(ctx)
}

// close removes a box. One that is not there is removed; one that is being made is not
// made.
func (st *station) close(r *http.Request) (any, error) {
	n, h, err := st.find(r)
	if err != nil {
		return nil, err
	}
	if h == nil {
		st.mu.Lock()
		if _, known := st.boxes[n]; !known {
			st.boxes[n] = nil // its order may still come
		}
		st.mu.Unlock()
		return struct{}{}, nil
	}
	select {
	case <-h.ready:
	default:
		h.cancel()
		<-h.ready
	}
	if h.made != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), endTime)
		defer cancel()
		if err := h.made.close(ctx); err != nil {
			return nil, err // it is asked for again
		}
	}
	st.forget(n)
	return struct{}{}, nil
}

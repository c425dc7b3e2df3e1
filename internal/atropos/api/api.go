// Package api is Atropos' rollout API over HTTP, with what it lacks: what was accepted is
// on disk before it is answered, a batch is gone only when its last byte is, and a state
// that would stall says so.
//
// Every change is made under one lock, and is a few assignments: bodies are read,
// validated, written to disk and to clients, and batches are formed, outside of it, so that
// no call waits for the disk, the body or the queue of another. Questions about the state are answered from what the last
// change has left for them, without the lock.
package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hermes/internal/atropos/group"
	"hermes/internal/atropos/ledger"
	"hermes/internal/atropos/store"
)

// Options tune a [Server]. The zero value is usable.
type Options struct {
	Dir      string        // where groups and events are kept; required
	Strict   bool          // answer exactly as Atropos' server does
	FIFO     bool          // deliver the batch that formed first, not the newest
	Lease    time.Duration // how long a batch waits for its acknowledgement; 0 means 10 minutes
	MaxBody  int64         // bytes of a body, inflated; 0 means 1 GiB
	Memory   int64         // bytes of bodies that are worked on at once; 0 means 2 GiB
	MaxQueue int64         // bytes of groups that are kept; posts wait above it. 0 means 64 GiB
	Patience time.Duration // how long a post waits for room before it is refused; 0 means 30 seconds
	Compact  int64         // bytes of the log of events from which it is compacted; 0 means 256 MiB
	Store    store.Options // of the files
	Log      *slog.Logger  // nil means silent
}

func (o *Options) fill() error {
	if o.Dir == "" {
		return errors.New("no data directory")
	}
	for _, d := range []struct {
		name  string
		value *int64
		std   int64
	}{{"max body", &o.MaxBody, 1 << 30}, {"memory", &o.Memory, 2 << 30}, {"max queue", &o.MaxQueue, 64 << 30}, {"compact", &o.Compact, 256 << 20}} {
		if *d.value < 0 {
			return fmt.Errorf("%s: %d is negative", d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.std)
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Server answers the API. It is an [http.Handler].
type Server struct {
	opt      Options
	store    *store.Store
	memory   *memory
	bodies   sync.Pool // *[]byte
	firsts   sync.Pool // *[]byte of firstBuffer
	gzips    sync.Pool // *gzip.Writer
	routes   map[string]map[string]http.HandlerFunc
	changing map[string]bool // paths whose GET changes the state
	count    counters

	seen atomic.Pointer[sight] // the state as the last change left it

	forming sync.Mutex            // taken before mu
	form    func(*ledger.Forming) // its Work; tests hold it

	mu    sync.Mutex
	state *ledger.State
	room  chan struct{} // closed when groups have left
	limit int64         // size of the log at which it is compacted

	serial     uint64 // of the newest event
	compacting bool
	background sync.WaitGroup
}

// counters are of this process; totals are in the state.
type counters struct {
	requests, refused, faults, damaged, duplicates, waited atomic.Int64
	bodyBytes, deliveredBytes                              atomic.Int64
	ingest                                                 atomic.Int64 // ns from the body's first byte to the answer
}

// Recovered is what [Open] found in its directory.
type Recovered struct {
	Groups, Sequences int
	Cut               int64 // bytes of a torn event that were cut off
	Took              time.Duration
}

// minCompact is the size of a log from which compacting it is worth while, in bytes.
const minCompact = 4 << 20

// Open opens the directory and brings the state back.
func Open(o Options) (*Server, Recovered, error) {
	var rec Recovered
	if err := o.fill(); err != nil {
		return nil, rec, err
	}
	begin := time.Now()
	state := ledger.New(ledger.Options{Strict: o.Strict, FIFO: o.FIFO, Lease: o.Lease})
	st, found, err := store.Open(o.Dir, o.Store, state.Replay)
	if err != nil {
		return nil, rec, err
	}
	state.Finish(st.Keep)
	st.Start()
	s := &Server{opt: o, store: st, state: state, memory: &memory{most: o.Memory}, room: make(chan struct{}), limit: o.Compact, form: (*ledger.Forming).Work}
	if st.Usage().Log > minCompact {
		if err := st.Compact(st.Mark(), state.Image().Frames()); err != nil {
			return nil, rec, errors.Join(err, st.Close())
		}
	}
	s.route()
	s.publish()
	info := s.look()
	_, rec.Groups = state.Bytes()
	rec.Sequences = info.Queued
	rec.Cut = found.Cut
	rec.Took = time.Since(begin)
	return s, rec, nil
}

// Close waits for what was accepted to be on disk. Requests must have ended.
func (s *Server) Close() error {
	s.background.Wait()
	return s.store.Close()
}

// Err is why the server accepts nothing any more, nil while it does.
func (s *Server) Err() error { return s.store.Err() }

// change changes the state and logs the change. wait returns when it is on disk.
func (s *Server) change(f func(st *ledger.State)) (wait func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.state.Bytes()
	f(s.state)
	s.publish()
	frame, freed := s.state.Take()
	if after, _ := s.state.Bytes(); after < before {
		close(s.room)
		s.room = make(chan struct{})
	}
	if frame == nil {
		return func() error { return nil }
	}
	serial := s.store.Log(frame, freed...)
	s.serial = serial
	if mark := s.store.Mark(); mark > s.limit && !s.compacting {
		s.compacting = true
		image := s.state.Image()
		s.background.Go(func() { s.compact(mark, image) })
	}
	return func() error { return s.store.Wait(serial) }
}

// compact writes a new log in the place of one that has grown, while requests go on.
func (s *Server) compact(mark int64, image *ledger.Image) {
	err := s.store.Compact(mark, image.Frames())
	if err != nil {
		s.opt.Log.Error("compact the log", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacting, s.limit = false, max(s.opt.Compact, 2*s.store.Mark())
}

// sight is a copy of the state, from which questions about it are answered without the lock.
type sight struct {
	ledger.Info
	bytes int64 // of the groups that are kept
	at    time.Time
}

// publish lets everybody see the state. The caller holds mu, or is alone.
func (s *Server) publish() {
	now := time.Now()
	v := &sight{Info: s.state.Info(now), at: now}
	v.bytes, _ = s.state.Bytes()
	s.seen.Store(v)
}

// look is the state after the last change.
func (s *Server) look() ledger.Info {
	v := s.seen.Load()
	i := v.Info
	i.Envs = slices.Clone(i.Envs)
	for k := range i.Envs {
		if e := &i.Envs[k]; e.Silent >= 0 {
			e.Silent += time.Since(v.at)
		}
	}
	return i
}

// settle returns when every change so far is on disk.
func (s *Server) settle() error {
	s.mu.Lock()
	serial := s.serial
	s.mu.Unlock()
	return s.store.Wait(serial)
}

func (s *Server) rules() group.Rules { return group.Rules{Types: s.opt.Strict} }

// route lists the routes.
func (s *Server) route() {
	get := func(h http.HandlerFunc) map[string]http.HandlerFunc { return map[string]http.HandlerFunc{"GET": h} }
	post := func(h http.HandlerFunc) map[string]http.HandlerFunc { return map[string]http.HandlerFunc{"POST": h} }
	s.routes = map[string]map[string]http.HandlerFunc{
		"/":                 get(s.root),
		"/register":         post(s.register),
		"/register-env":     post(s.registerEnv),
		"/disconnect-env":   post(s.disconnectEnv),
		"/wandb_info":       get(s.wandbInfo),
		"/info":             get(s.info),
		"/batch":            get(s.batch),
		"/latest_example":   get(s.latest),
		"/scored_data":      post(s.scoredData),
		"/scored_data_list": post(s.scoredDataList),
		"/status":           get(s.status),
		"/status-env":       get(s.statusEnv),
		"/reset_data":       get(s.reset),
		// Not Atropos':
		"/ack":       post(s.ack),
		"/metrics":   get(s.metrics),
		"/dashboard": get(s.dashboard),
	}
	s.changing = map[string]bool{"/batch": true, "/reset_data": true, "/status-env": true}
}

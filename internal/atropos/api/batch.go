package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"hermes/internal/atropos/ledger"
	"hermes/internal/atropos/store"
)

// unregistered is what Atropos' server says before any registration.
const unregistered = "Trainer not registered. Call /register first."

// A trainer that acknowledges names itself with ?holder=NAME. Its answer has a batch_id,
// which it sends to /ack, or with its next request as &ack=ID.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	holder, acked := "", uint64(0)
	if !s.opt.Strict {
		holder = r.URL.Query().Get("holder")
		if text := r.URL.Query().Get("ack"); text != "" {
			var err error
			acked, err = strconv.ParseUint(text, 10, 64)
			if err != nil {
				detail(w, http.StatusUnprocessableEntity, fmt.Sprintf("ack=%q is not the number of a batch", text))
				return
			}
		}
	}
	b, err := s.next(holder, acked)
	if acked != 0 || b != nil {
		// The acknowledgement must hold, and a batch must have been formed for good: were
		// its number given out again after a crash, it would stand for other groups.
		if broken := s.settle(); broken != nil {
			s.broken(w, broken)
			return
		}
	}
	var stuck *ledger.Refused
	switch {
	case errors.Is(err, ledger.ErrUnregistered):
		s.noBatch(w, unregistered)
	case errors.As(err, &stuck):
		s.count.refused.Add(1)
		s.opt.Log.Warn("no batch can be formed", "reason", stuck.Text)
		s.noBatch(w, stuck.Text)
	case err != nil:
		s.refuse(w, err)
	case b == nil:
		replyRaw(w, http.StatusOK, []byte(`{"batch":null}`))
	default:
		s.deliver(w, r, b, holder)
	}
}

// next acknowledges a batch, 0 for none, and takes the next one. Batches are formed by one
// request at a time, while all others are answered.
func (s *Server) next(holder string, acked uint64) (b *ledger.Batch, err error) {
	var f *ledger.Forming
	take := func() {
		s.change(func(st *ledger.State) {
			if acked != 0 {
				if err = st.Acknowledge(acked); err != nil {
					return
				}
				acked = 0
			}
			b, f, err = st.Next(holder, time.Now(), f)
		})
	}
	if take(); f == nil {
		return b, err
	}
	s.forming.Lock()
	defer s.forming.Unlock()
	f = nil // somebody else may have formed them meanwhile
	for take(); f != nil; take() {
		s.form(f)
	}
	return b, err
}

// noBatch answers in the form of Atropos' own error, which trainers look for.
func (s *Server) noBatch(w http.ResponseWriter, text string) {
	reply(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Batch   []int  `json:"batch"`
	}{"error", text, []int{}})
}

// deliver writes a batch. It stays leased until its last byte has gone out, to a holder
// until it acknowledges; when the connection breaks before, it goes back.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, b *ledger.Batch, holder string) {
	for _, g := range b.Groups {
		if g.NonFinite { // only a strict server has taken it: the batch is lost there too
			s.change(func(st *ledger.State) { st.Delivered(b.ID) })
			s.broken(w, fmt.Errorf("batch %d holds numbers that are not finite", b.ID))
			return
		}
	}
	head, tail := `{"batch":[`, `]}`
	if holder != "" {
		tail = fmt.Sprintf(`],"batch_id":%d}`, b.ID)
	}
	refs := b.Groups
	if err := s.send(w, r, head, refs, tail); err != nil {
		var spoilt *groupError
		s.change(func(st *ledger.State) {
			if errors.As(err, &spoilt) && errors.Is(err, store.ErrDamaged) {
				st.Spoil(b.ID, spoilt.id)
			} else {
				st.Returned(b.ID)
			}
		})
		if spoilt != nil && errors.Is(err, store.ErrDamaged) {
			s.count.damaged.Add(1)
			s.opt.Log.Error("a group is damaged and has been dropped; the others of its batch are queued again", "err", err)
		} else {
			s.opt.Log.Warn("a batch was not delivered and will be sent again", "batch", b.ID, "err", err)
		}
		panic(http.ErrAbortHandler) // the client must not take what it has for whole
	}
	s.change(func(st *ledger.State) {
		if holder != "" {
			st.Await(b.ID, holder, time.Now())
		} else {
			st.Delivered(b.ID)
		}
	})
	s.opt.Log.Info("batch sent", "batch", b.ID, "groups", len(b.Groups))
}

// groupError is an error with the group it happened in.
type groupError struct {
	id  uint64
	err error
}

func (e *groupError) Error() string { return fmt.Sprintf("group %d: %v", e.id, e.err) }
func (e *groupError) Unwrap() error { return e.err }

// Answers from minGzip bytes are compressed for clients that want it; on the loopback
// only up to maxGzip, because there compressing costs more than it saves.
const (
	minGzip = 1000
	maxGzip = 1 << 20
)

// stalled is how long a client may take no bytes at all.
const stalled = time.Minute

// send writes groups between head and tail, separated by commas.
func (s *Server) send(w http.ResponseWriter, r *http.Request, head string, refs []*ledger.Ref, tail string) error {
	size := int64(len(head) + len(tail) + max(0, len(refs)-1))
	for _, g := range refs {
		size += g.At.Size
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	out := &patient{w: w, ctl: http.NewResponseController(w)}
	var to io.Writer = out
	var z *gzip.Writer
	if size >= minGzip {
		h.Set("Vary", "Accept-Encoding")
	}
	if size >= minGzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && (s.opt.Strict || size <= maxGzip || !local(r)) {
		h.Set("Content-Encoding", "gzip")
		z, _ = s.gzips.Get().(*gzip.Writer)
		if z == nil {
			z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		}
		z.Reset(out)
		defer s.gzips.Put(z)
		to = z
	} else {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	buf, _ := s.bodies.Get().(*[]byte)
	if buf == nil || cap(*buf) < 1<<20 {
		buf = new([]byte)
		*buf = make([]byte, 1<<20)
	}
	defer s.bodies.Put(buf)
	// Who has left already gets nothing. Later this says nothing: a client may close its
	// connection as soon as it has the last byte.
	if err := context.Cause(r.Context()); err != nil {
		return err
	}
	if _, err := io.WriteString(to, head); err != nil {
		return err
	}
	for i, g := range refs {
		if i > 0 {
			if _, err := io.WriteString(to, ","); err != nil {
				return err
			}
		}
		if err := s.store.Copy(to, g.At, (*buf)[:min(cap(*buf), 1<<20)]); err != nil {
			return &groupError{g.ID, err}
		}
	}
	if _, err := io.WriteString(to, tail); err != nil {
		return err
	}
	if z != nil {
		if err := z.Close(); err != nil {
			return err
		}
	}
	if err := out.ctl.Flush(); err != nil {
		return err
	}
	s.count.deliveredBytes.Add(size)
	return nil
}

// patient gives each write its own deadline.
type patient struct {
	w   io.Writer
	ctl *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	// A recorder in a test has no deadlines; then there is none.
	_ = p.ctl.SetWriteDeadline(time.Now().Add(stalled))
	return p.w.Write(b)
}

func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip.IsLoopback()
}

// ack takes {"batch_id": int}: the batch has been trained on, or is safe with the trainer.
func (s *Server) ack(w http.ResponseWriter, r *http.Request) {
	m, err := s.object(r)
	f := fields{m: m, err: err}
	if err == nil {
		id := f.int("batch_id")
		if err = f.err; err == nil {
			wait := s.change(func(st *ledger.State) { err = st.Acknowledge(uint64(max(id, 0))) })
			err = errors.Join(err, wait())
		}
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "success"})
}

// noExample is the answer before any group: nine keys, as Atropos' server has them.
const noExample = `{"tokens":[],"masks":[],"scores":[],"advantages":[],"ref_logprobs":[],"generation_params":[],"inference_logprobs":[],"messages":[],"images":[]}`

func (s *Server) latest(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	var g *ledger.Ref
	if l := s.state.Latest(); l != nil {
		c := *l
		g = &c
		s.store.Keep(c.At) // it must not go while it is read
	}
	s.mu.Unlock()
	if g == nil {
		replyRaw(w, http.StatusOK, []byte(noExample))
		return
	}
	defer s.store.Drop(g.At)
	if g.NonFinite {
		s.broken(w, errors.New("the latest group holds numbers that are not finite"))
		return
	}
	var check bytes.Buffer
	if g.At.Size < 1<<20 { // a small one is looked at before anything is sent
		if err := s.store.Copy(&check, g.At, nil); err != nil {
			s.broken(w, err)
			return
		}
	}
	if err := s.send(w, r, "", []*ledger.Ref{g}, ""); err != nil {
		panic(http.ErrAbortHandler)
	}
}

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"hermes/internal/atropos/group"
)

// inflation is how much larger than its gzip a body is assumed to be when room for it is
// asked for.
const inflation = 6

// overhead is what a request takes beside its body, in bytes.
const overhead = 128 << 10

// pooled is the largest buffer that is kept for the next body, in bytes.
const pooled = 64 << 20

// read reads a whole body, inflated, into a buffer that done gives back. It waits until
// there is memory for it.
func (s *Server) read(r *http.Request) (body []byte, done func(), err error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		kind, _, err := mime.ParseMediaType(t)
		if sub, ok := strings.CutPrefix(kind, "application/"); err != nil || !ok || sub != "json" && !strings.HasSuffix(sub, "+json") {
			return nil, nil, &group.Fault{Type: "model_attributes_type", Msg: "Input should be a valid dictionary or object to extract fields from (send Content-Type: application/json)"}
		}
	}
	zipped := strings.Contains(strings.ToLower(r.Header.Get("Content-Encoding")), "gzip")
	size := r.ContentLength
	if size < 0 {
		size = 1 << 20
	}
	if zipped {
		size *= inflation
	}
	if size > s.opt.MaxBody && !zipped {
		return nil, nil, s.tooLarge()
	}
	weight := min(size+size/8+overhead, s.opt.Memory)
	if err := s.memory.Acquire(r.Context(), weight); err != nil {
		return nil, nil, &errBody{status: http.StatusServiceUnavailable, text: "the client left while its body waited for memory"}
	}
	buf, _ := s.bodies.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	done = func() {
		if cap(*buf) <= pooled {
			s.bodies.Put(buf)
		}
		s.memory.Release(weight)
	}
	more := func(n int64) bool { // it turns out to be larger than was thought
		ok := s.memory.TryAcquire(n)
		if ok {
			weight += n
		}
		return ok
	}
	*buf, err = s.fill(r, (*buf)[:0], zipped, min(size, s.opt.MaxBody), more)
	if err != nil {
		done()
		return nil, nil, err
	}
	s.count.bodyBytes.Add(int64(len(*buf)))
	return *buf, done, nil
}

func (s *Server) tooLarge() error {
	return &errBody{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is larger than %d bytes; send fewer groups at once or start the server with a larger --max-body", s.opt.MaxBody)}
}

func (s *Server) fill(r *http.Request, buf []byte, zipped bool, guess int64, more func(int64) bool) ([]byte, error) {
	if need := int(guess) + bytes.MinRead; cap(buf) < need {
		buf = make([]byte, 0, need)
	}
	var src io.Reader = r.Body
	if zipped {
		in := bufio.NewReader(r.Body)
		switch magic, err := in.Peek(2); {
		case len(magic) == 0 && err == io.EOF:
			return buf, nil // an empty body is passed on as one
		case string(magic) != "\x1f\x8b":
			return nil, s.unzip(gzip.ErrHeader)
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, s.unzip(err)
		}
		src = z
	}
	buf, err := s.readAll(io.LimitReader(src, s.opt.MaxBody+1), buf, more)
	var large *http.MaxBytesError
	var busy *errBody
	switch {
	case errors.As(err, &busy):
		return nil, err
	case errors.As(err, &large) || int64(len(buf)) > s.opt.MaxBody:
		return nil, s.tooLarge()
	case err != nil && zipped:
		return nil, s.unzip(err)
	case err != nil:
		return nil, &errBody{status: http.StatusBadRequest, text: "the body broke off: " + err.Error()}
	}
	return buf, nil
}

// readAll reads to the end; more is asked before the buffer grows.
func (s *Server) readAll(src io.Reader, buf []byte, more func(int64) bool) ([]byte, error) {
	for {
		if cap(buf)-len(buf) < bytes.MinRead {
			if !more(int64(cap(buf))) {
				return buf, &errBody{status: http.StatusServiceUnavailable, text: "no memory is left for a body that is larger than it seemed; send it again later, or start the server with a larger --memory"}
			}
			buf = slices.Grow(buf, cap(buf))
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// unzip is the fault of a body that is not gzip. Atropos' server crashes on one that is
// cut off or has an invalid block, and says the same of others.
func (s *Server) unzip(err error) error {
	if s.opt.Strict && (errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(err.Error(), "flate")) {
		return errors.New("gzip: " + err.Error())
	}
	return &errBody{status: http.StatusBadRequest, text: "Invalid gzip payload", plain: true}
}

// object reads a small body as an object.
func (s *Server) object(r *http.Request) (map[string]any, error) {
	body, done, err := s.read(r)
	if err != nil {
		return nil, err
	}
	defer done()
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, &group.Fault{Type: "missing", Msg: "Field required"}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err = d.Decode(&v); err == nil {
		if _, err = d.Token(); err == io.EOF {
			err = nil
		} else {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return nil, notUTF8(&group.Fault{Type: "json_invalid", Loc: []any{d.InputOffset()}, Msg: err.Error()}, body)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, &group.Fault{Type: "model_attributes_type", Msg: "Input should be a valid dictionary or object to extract fields from"}
	}
	return m, nil
}

// fields reads the fields of an object; the first fault is kept.
type fields struct {
	m   map[string]any
	err error
}

func (f *fields) get(name string) (any, bool) {
	v, ok := f.m[name]
	if !ok && f.err == nil {
		f.err = &group.Fault{Type: "missing", Loc: []any{name}, Msg: "Field required"}
	}
	return v, ok
}

func (f *fields) fault(name string, err error) {
	var g *group.Fault
	if f.err == nil && errors.As(err, &g) {
		g.Loc = []any{name}
		f.err = g
	}
}

func (f *fields) text(name string) string {
	v, ok := f.get(name)
	t, is := v.(string)
	if ok && !is {
		f.fault(name, &group.Fault{Type: "string_type", Msg: "Input should be a valid string"})
	}
	return t
}

func (f *fields) int(name string) int64 {
	v, ok := f.get(name)
	if !ok {
		return 0
	}
	n, err := group.Integer(v)
	if err == nil && !n.IsInt64() {
		err = &group.Fault{Type: "int_parsing_size", Msg: "Input should fit into 64 bits"}
	}
	if err != nil {
		f.fault(name, err)
		return 0
	}
	return n.Int64()
}

func (f *fields) float(name string) float64 {
	v, ok := f.get(name)
	if !ok {
		return 0
	}
	x, err := group.Float(v)
	f.fault(name, err)
	return x
}

// waitForRoom waits until the groups that are kept take less than they may.
func (s *Server) waitForRoom(ctx context.Context) error {
	for first := true; ; first = false {
		s.mu.Lock()
		n, _ := s.state.Bytes()
		room := s.room
		s.mu.Unlock()
		if n < s.opt.MaxQueue {
			return nil
		}
		if first {
			s.count.waited.Add(1)
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, s.opt.Patience)
			defer stop()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return &errBody{status: http.StatusServiceUnavailable, text: fmt.Sprintf("%d bytes of groups wait for the trainer, which is all that --max-queue %d lets in; post again when it has fetched batches", n, s.opt.MaxQueue)}
		}
	}
}

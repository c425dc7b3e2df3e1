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
	"strings"

	"github.com/klauspost/compress/gzip"

	"hermes/internal/atropos/group"
	"hermes/internal/guard"
)

// inflation is how much larger than its gzip a body is thought to be at first.
const inflation = 6

// A gzip may inflate to so many bytes whatever its size, and beyond that to so many times
// its size. Lists of token ids inflate to 3 or 4 times, what repeats itself in them
// (masks, the log-probabilities of a prompt) makes it 10; a bomb of zeros a thousand.
const (
	freeInflation = 4 << 20
	maxInflation  = 64
)

// overhead is what a request takes beside its body, in bytes.
const overhead = 128 << 10

// The first buffer of a body takes so many bytes; then it grows with what has arrived, to
// at most 16 times that.
const firstBuffer = 64 << 10

// pooled is the largest buffer that is kept for the next body, in bytes.
const pooled = 64 << 20

// smallBody is the most that a registration or an acknowledgement takes, in bytes.
const smallBody = 256 << 10

// reading is a body on its way into memory.
type reading struct {
	s      *Server
	share  *share
	src    io.Reader
	buf    *[]byte
	guess  int64 // how long the body will be
	known  bool  // guess is what the client has declared
	limit  int64 // longest body that is taken
	most   int64 // longest that it can become
	zipped *counted
}

// counted counts the bytes that have come of a gzip.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// read reads a whole body of at most limit bytes, inflated, into a buffer that done gives
// back. It waits until there is memory for what comes next.
func (s *Server) read(r *http.Request, limit int64) (body []byte, done func(), err error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		kind, _, err := mime.ParseMediaType(t)
		if sub, ok := strings.CutPrefix(kind, "application/"); err != nil || !ok || sub != "json" && !strings.HasSuffix(sub, "+json") {
			return nil, nil, &group.Fault{Type: "model_attributes_type", Msg: "Input should be a valid dictionary or object to extract fields from (send Content-Type: application/json)"}
		}
	}
	zipped := strings.Contains(strings.ToLower(r.Header.Get("Content-Encoding")), "gzip")
	x := &reading{s: s, src: r.Body, guess: r.ContentLength, known: r.ContentLength >= 0 && !zipped, limit: min(limit, s.opt.MaxBody)}
	most := x.limit
	switch {
	case x.known && x.guess > x.limit:
		return nil, nil, x.tooLarge()
	case x.known:
		most = x.guess
	case x.guess < 0:
		x.guess = 1 << 20
	default:
		most = min(most, max(freeInflation, maxInflation*x.guess))
		x.guess *= inflation
	}
	x.guess, x.most = min(x.guess, most), most
	x.share = s.memory.join(x.charge(most + bytes.MinRead))
	done = func() {
		s.giveBack(x.buf)
		x.share.leave()
	}
	if err = x.all(r.Context(), r.Body, zipped); err != nil {
		done()
		return nil, nil, err
	}
	s.count.bodyBytes.Add(int64(len(*x.buf)))
	return *x.buf, done, nil
}

// charge is what a body in a buffer of so many bytes is counted for: reading what it says
// takes some memory, too. One that is as long as it says may take all there is.
func (x *reading) charge(bytes int64) int64 {
	n := bytes + bytes/8 + overhead
	if x.known {
		n = min(n, x.s.opt.Memory)
	}
	return n
}

func (x *reading) tooLarge() error {
	if x.limit < x.s.opt.MaxBody {
		return &errBody{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is larger than the %d bytes that such a request may have", x.limit)}
	}
	return &errBody{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is larger than %d bytes; send fewer groups at once or start the server with a larger --max-body", x.limit)}
}

// all reads the body to its end.
func (x *reading) all(ctx context.Context, body io.Reader, zipped bool) error {
	if err := x.grow(ctx); err != nil {
		return err
	}
	if zipped {
		x.zipped = &counted{Reader: body}
		in := bufio.NewReader(x.zipped)
		switch magic, err := in.Peek(2); {
		case len(magic) == 0 && err == io.EOF:
			return nil // an empty body is passed on as one
		case err != nil && err != io.EOF:
			return x.broken(err)
		case string(magic) != "\x1f\x8b":
			return x.s.unzip(gzip.ErrHeader)
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return x.broken(err)
		}
		x.src = z
	}
	for {
		b := *x.buf
		if len(b) == cap(b) {
			if err := x.grow(ctx); err != nil {
				return err
			}
			b = *x.buf
		}
		n, err := x.src.Read(b[len(b):cap(b)])
		*x.buf = b[:len(b)+n]
		have := int64(len(*x.buf))
		switch {
		case have > x.limit:
			return x.tooLarge()
		case x.zipped != nil && have > max(freeInflation, maxInflation*x.zipped.n):
			return &errBody{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body inflates to more than %d times its size; send it without gzip", maxInflation)}
		case err == io.EOF:
			return nil
		case err != nil:
			return x.broken(err)
		}
	}
}

// broken is the fault of a body that could not be read.
func (x *reading) broken(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, guard.ErrSlow):
		return &errBody{status: http.StatusRequestTimeout, text: "the body came too slowly or not at all; send it again"}
	case errors.As(err, &large):
		return x.tooLarge()
	case x.zipped != nil:
		return x.s.unzip(err)
	}
	return &errBody{status: http.StatusBadRequest, text: "the body broke off: " + err.Error()}
}

// grow gets a larger buffer when there is memory for it: one for the whole body where an
// eighth of it has arrived, an eighth of that, or of that, before.
func (x *reading) grow(ctx context.Context) error {
	var have []byte
	if x.buf != nil {
		have = *x.buf
	}
	n := int64(len(have))
	if n > x.guess { // it turns out to be longer
		x.guess = min(2*n, x.most)
	}
	need := x.guess + bytes.MinRead
	for next := need / 8; next >= max(2*n, firstBuffer); next /= 8 {
		need = next
	}
	if n == 0 {
		need = min(need, firstBuffer)
	}
	if !x.share.hold(ctx, x.charge(need)) {
		if ctx.Err() != nil {
			return &errBody{status: http.StatusServiceUnavailable, text: "the client left while its body waited for memory"}
		}
		return &errBody{status: http.StatusServiceUnavailable, text: "no memory is left for a body that is larger than it seemed; send it again later, or start the server with a larger --memory"}
	}
	buf := x.s.buffer(need)
	*buf = append((*buf)[:0], have...)
	x.s.giveBack(x.buf)
	x.buf = buf
	return nil
}

// buffer gives an empty buffer for at least so many bytes.
func (s *Server) buffer(n int64) *[]byte {
	pool := &s.bodies
	if n <= firstBuffer {
		pool, n = &s.firsts, firstBuffer
	}
	if b, ok := pool.Get().(*[]byte); ok {
		if c := int64(cap(*b)); c >= n && c/8 <= max(n, 1<<20) {
			*b = (*b)[:0]
			return b
		}
		pool.Put(b)
	}
	b := make([]byte, 0, n)
	return &b
}

func (s *Server) giveBack(b *[]byte) {
	switch {
	case b == nil || cap(*b) > pooled:
	case cap(*b) == firstBuffer:
		s.firsts.Put(b)
	default:
		s.bodies.Put(b)
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
	body, done, err := s.read(r, smallBody)
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

// short demands that a text is no longer than a name.
func (f *fields) short(name, text string) {
	if len(text) > maxName {
		f.fault(name, &group.Fault{Type: "string_too_long", Msg: fmt.Sprintf("String should have at most %d bytes", maxName)})
	}
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

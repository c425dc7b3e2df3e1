package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// worker is one child process. It dies once and is then replaced.
type worker struct {
	n       int
	limit   int           // bytes of a message
	timeout time.Duration // of one request
	proc    *process
	out     chan []byte // lines for its stdin

	mu      sync.Mutex
	turn    int // requests that it works on at once; those behind wait in its pipe
	asked   int64
	waiting map[int64]*pending
	order   []*pending
	held    map[int64]*pending // answered, and not believed yet
	dead    error              // why; set once
	gone    chan struct{}
	running sync.WaitGroup
}

// pending is one request that was sent.
type pending struct {
	id      int64
	method  string
	scene   *scene
	ctx     context.Context
	reply   chan reply
	nested  bool
	started time.Time // zero: it waits in the pipe
	errands int       // callbacks that are under way: the clock is stopped
	clock   *time.Timer
	said    reply // of one that is held
}

type reply struct {
	result json.RawMessage
	err    error
}

// doubt is how long an answer is held back: one that is followed by another answer to the
// same request is not believed.
const doubt = time.Millisecond

// errands is how many callbacks one worker may have under way.
const errands = 256

// startWorker starts the program. The process is gone when close returns.
func startWorker(n int, c Config, log *console) (*worker, error) {
	proc, err := startProcess(c, c.Command, func(line string) { log.line(n, line) }, "HERMES_ENVIRONMENT=1")
	if err != nil {
		return nil, err
	}
	w := &worker{n: n, limit: c.MaxMessage, timeout: c.Timeout, proc: proc, out: make(chan []byte, 64), turn: 1,
		waiting: map[int64]*pending{}, held: map[int64]*pending{}, gone: make(chan struct{})}
	w.running.Go(w.write)
	w.running.Go(w.read)
	return w, nil
}

// write feeds its stdin. A program that does not read blocks this goroutine alone.
func (w *worker) write() {
	defer w.proc.in.Close()
	for {
		select {
		case line := <-w.out:
			if _, err := w.proc.in.Write(line); err != nil {
				return // it is ending; read finds out how
			}
		case <-w.gone:
			return
		}
	}
}

func (w *worker) send(ctx context.Context, line []byte) error {
	select {
	case w.out <- line:
		return nil
	case <-w.gone:
		return w.lost()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lost is why the worker is dead; nil while it lives.
func (w *worker) lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// call sends a request and waits for its answer, which must come within the timeout,
// counted from when it is its turn or the worker last answered another one: of requests
// that it works on at once, a program may do one after the other.
func (w *worker) call(ctx context.Context, method string, params json.RawMessage, s *scene) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the errands of the request
	p := &pending{method: method, scene: s, ctx: ctx, reply: make(chan reply, 1), nested: isNested(ctx)}
	w.mu.Lock()
	if w.dead != nil {
		w.mu.Unlock()
		return nil, w.dead
	}
	w.asked++
	p.id = w.asked
	w.waiting[p.id], w.order = p, append(w.order, p)
	w.schedule()
	w.mu.Unlock()
	line, err := request(p.id, method, p.nested, params)
	if err == nil {
		err = w.send(ctx, line)
	}
	if err != nil {
		w.forget(p)
		return nil, err
	}
	select {
	case r := <-p.reply:
		return r.result, s.blame(r.err)
	case <-ctx.Done(): // the answer, if it still comes, is dropped
		return nil, context.Cause(ctx)
	}
}

// schedule starts the clocks of the requests whose turn it is. The caller holds mu.
func (w *worker) schedule() {
	for i, p := range w.order {
		if p.started.IsZero() && (i < w.turn || p.nested) {
			p.started = time.Now()
			w.wind(p)
		}
	}
}

// wind starts the clock of a request again. The caller holds mu.
func (w *worker) wind(p *pending) {
	if p.errands == 0 && w.dead == nil {
		p.clock = time.AfterFunc(w.timeout, func() {
			w.mu.Lock()
			late := w.waiting[p.id] == p && p.errands == 0
			w.mu.Unlock()
			if !late {
				return
			}
			w.end(broken("worker %d did not answer %s within %v and was killed", w.n, p.method, w.timeout))
		})
	}
}

// forget takes a request out. It tells whether it was there.
func (w *worker) forget(p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[p.id] != p {
		return false
	}
	delete(w.waiting, p.id)
	w.order = slices.DeleteFunc(w.order, func(q *pending) bool { return q == p })
	if p.clock != nil {
		p.clock.Stop()
	}
	for _, q := range w.order {
		if q.clock != nil && q.errands == 0 && time.Since(q.started) < w.timeout*time.Duration(w.turn) {
			q.clock.Reset(w.timeout)
		}
	}
	w.schedule()
	return true
}

// read hands out what the program writes, until it ends or breaks the protocol.
func (w *worker) read() {
	r := bufio.NewReaderSize(w.proc.out, 64<<10)
	places := make(chan struct{}, errands)
	for {
		line, err := readLine(r, w.limit)
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = w.take(line, places)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			w.end(nil)
			return
		}
		if err != nil {
			w.end(fmt.Errorf("worker %d: %w", w.n, err))
			return
		}
		if next, _ := r.Peek(r.Buffered()); bytes.IndexByte(next, '\n') < 0 {
			w.believe()
		}
	}
}

// believe starts the clocks after which the answers that are held go to those who asked.
func (w *worker) believe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, p := range w.held {
		if p.clock == nil {
			p.clock = time.AfterFunc(doubt, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.held[id] == p {
					delete(w.held, id)
					p.reply <- p.said
				}
			})
		}
	}
}

// readLine returns a line without its end. io.EOF is returned at the end of whole lines
// and also for a line that the end cuts off.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > limit {
			return nil, broken("it wrote a message of more than %d bytes (setting max-message), which begins with %q", limit, clip(string(append(line, piece...)), 100))
		}
		line = append(line, piece...)
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// take understands one line.
func (w *worker) take(line []byte, places chan struct{}) error {
	m, err := decode(line)
	if err != nil && !errors.Is(err, errNotFinite) {
		return garbage(line, err)
	}
	if m.Method != "" {
		return w.errand(m, places)
	}
	id, bad := strconv.ParseInt(string(m.ID), 10, 64)
	w.mu.Lock()
	p, asked := w.waiting[id], w.asked
	w.mu.Unlock()
	switch {
	case bad != nil || id < 1 || id > asked:
		return broken("it answered a request that it was never asked: id %s", clip(string(m.ID), 50))
	case p == nil || !w.forget(p):
		return w.doubled(id, line)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.said, p.clock = answer(p.method, m, err, line), nil
	if w.dead != nil { // it was ended since: held is not read any more
		p.reply <- p.said
		return nil
	}
	w.held[id] = p
	return nil
}

// doubled is the error of a second answer. The first one fails with it, unless it was
// believed already; whatever else the worker was asked can be asked again elsewhere.
func (w *worker) doubled(id int64, line []byte) error {
	err := broken("it answered request %d twice, so that neither answer can be trusted; the second is %q", id, clip(string(line), 200))
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.held[id]; p != nil {
		p.said = reply{err: broken("the environment's %s: %w", p.method, err)}
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// answer makes a reply of a packet; err is errNotFinite or nil.
func answer(method string, m packet, err error, line []byte) reply {
	switch {
	case err != nil:
		return reply{err: broken("the environment's %s answered %s: %w", method, clip(string(line), 200), err)}
	case m.Error != nil:
		return reply{err: asFault(method, m.Error)}
	}
	return reply{result: m.Result}
}

// errand runs a callback of the program and sends its answer.
func (w *worker) errand(m packet, places chan struct{}) error {
	p, err := w.errandOf(m)
	if err != nil || p == nil {
		return err
	}
	select {
	case places <- struct{}{}:
	default:
		return broken("it has %d callbacks under way at once", errands)
	}
	w.mu.Lock()
	p.errands++
	if p.clock != nil {
		p.clock.Stop()
	}
	w.mu.Unlock()
	w.running.Go(func() {
		defer func() { <-places }()
		back := p.scene.serve(p.ctx, m)
		w.mu.Lock()
		p.errands--
		if w.waiting[p.id] == p && !p.started.IsZero() {
			w.wind(p)
		}
		w.mu.Unlock()
		if line, err := encode(back); err == nil {
			_ = w.send(p.ctx, line) // where the request is over or the worker gone, no answer is wanted
		}
	})
	return nil
}

// errandOf finds the request for which a callback is made; nil: it is over, and the
// callback is refused.
func (w *worker) errandOf(m packet) (*pending, error) {
	var of struct {
		For int64 `json:"for"`
	}
	if err := json.Unmarshal(m.Params, &of); err != nil || len(m.ID) == 0 {
		return nil, broken("its callback %s wants an id, and params with the number of the request in \"for\"", m.Method)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.waiting[of.For]; p != nil {
		return p, nil
	}
	line, err := encode(packet{ID: m.ID, Error: &fault{Code: codeCallback, Message: fmt.Sprintf("request %d is over", of.For)}})
	if err != nil {
		return nil, err
	}
	select {
	case w.out <- line:
		return nil, nil
	default:
		return nil, broken("it makes callbacks for requests that are over and does not read their answers")
	}
}

// end kills the process group, reaps the program and fails what it was still asked. A nil
// reason: it ended by itself.
func (w *worker) end(why error) {
	w.mu.Lock()
	if w.dead != nil {
		w.mu.Unlock()
		return
	}
	state := w.proc.finish(why != nil)
	left := w.order
	switch {
	case why == nil:
		w.dead = fmt.Errorf("%w: worker %d ended (%s) with %d requests unanswered%s", errLost, w.n, state, len(left), w.proc.lastWords())
	default:
		w.dead = fmt.Errorf("%w%s", why, w.proc.lastWords())
	}
	for _, p := range w.held {
		if p.clock != nil {
			p.clock.Stop()
		}
		p.reply <- p.said
	}
	w.order, w.waiting, w.held = nil, map[int64]*pending{}, map[int64]*pending{}
	why = w.dead
	close(w.gone)
	for _, p := range left {
		if p.clock != nil {
			p.clock.Stop()
		}
		p.reply <- reply{err: why}
	}
	w.mu.Unlock()
}

// close asks the program to end by closing its stdin, kills what is left and waits for
// all goroutines.
func (w *worker) close() {
	w.proc.ask()
	w.end(errors.New("the environment is closed"))
	w.running.Wait()
}

package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// ahead is how many requests wait in the pipe of a busy worker, so that it need not wait
// for the next.
const ahead = 3

// tries is how often a request is asked whose worker is lost.
const tries = 3

// pool shares requests out among workers, which are started as they are needed.
type pool struct {
	c      Config
	log    *console
	slots  []*slot
	places chan struct{} // made by begin: requests that may be with workers at once

	mu     sync.Mutex
	closed bool
	hello  greeting
}

// slot is the place of a worker.
type slot struct {
	load int // requests; guarded by the pool's mu

	mu sync.Mutex // held while the worker is started
	w  *worker
	n  int
}

func newPool(c Config, log *console) (*pool, error) {
	if _, err := exec.LookPath(c.Command[0]); err != nil {
		return nil, fmt.Errorf("command %q: %w", c.Command[0], err)
	}
	p := &pool{c: c, log: log}
	for i := range c.Workers {
		p.slots = append(p.slots, &slot{n: i + 1})
	}
	return p, nil
}

// begin starts the first worker.
func (p *pool) begin(ctx context.Context) (greeting, error) {
	if _, err := p.slots[0].get(ctx, p); err != nil {
		return greeting{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places = make(chan struct{}, len(p.slots)*(p.hello.Concurrency+ahead))
	return p.hello, nil
}

// call asks a worker, and another one where the first is lost and the method is safe to
// ask again.
func (p *pool) call(ctx context.Context, method string, params any, s *scene) (json.RawMessage, error) {
	raw, err := compact(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if len(raw) > p.c.MaxMessage {
		return nil, broken("%s: the request has %d bytes, more than the setting max-message (%d)", method, len(raw), p.c.MaxMessage)
	}
	if !isNested(ctx) { // a request that another one waits for must not wait behind it
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for try := 1; ; try++ {
		res, err := p.once(ctx, method, raw, s)
		if err == nil || try == tries || !errors.Is(err, errLost) || !safe(method) || ctx.Err() != nil {
			return res, err
		}
		p.log.warn(fmt.Sprintf("%s is asked again: %v", method, err))
	}
}

// safe says which methods leave nothing behind, so that they may be asked twice.
func safe(method string) bool {
	switch method {
	case "prepare", "call", "respond":
		return false
	}
	return true
}

func (p *pool) once(ctx context.Context, method string, params json.RawMessage, s *scene) (json.RawMessage, error) {
	slot, err := p.take()
	if err != nil {
		return nil, err
	}
	defer p.give(slot)
	w, err := slot.get(ctx, p)
	if err != nil {
		return nil, err
	}
	return w.call(ctx, method, params, s)
}

// take chooses the slot with the fewest requests; one whose worker lives before one whose
// worker must be started.
func (p *pool) take() (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the environment is closed")
	}
	best := p.slots[0]
	for _, s := range p.slots[1:] {
		if s.load < best.load {
			best = s
		}
	}
	best.load++
	return best, nil
}

func (p *pool) give(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.load--
}

// get returns the slot's worker; a lost one is replaced.
func (s *slot) get(ctx context.Context, p *pool) (*worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w != nil {
		err := s.w.lost()
		if err == nil {
			return s.w, nil
		}
		s.w.running.Wait()
		p.log.warn(fmt.Sprintf("worker %d is started again: %v", s.n, err))
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	w, err := startWorker(s.n, p.c, p.log)
	if err != nil {
		return nil, broken("%w", err)
	}
	hello, err := w.greet(ctx, p.c)
	if err == nil {
		err = p.know(hello)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	w.mu.Lock()
	w.turn = hello.Concurrency
	w.mu.Unlock()
	s.w = w
	return w, nil
}

func (p *pool) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the environment is closed")
	}
	return nil
}

// know compares what a worker says of itself with what the first one said.
func (p *pool) know(g greeting) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hello.Name == "" {
		p.hello = g
	}
	if p.hello.Name != g.Name || p.hello.Version != g.Version {
		return broken("the program was %s %s and is %s %s now: it was changed while the run went on", p.hello.Name, p.hello.Version, g.Name, g.Version)
	}
	return nil
}

// greet asks a fresh worker what it is.
func (w *worker) greet(ctx context.Context, c Config) (greeting, error) {
	params, err := compact(hello(c, w.n))
	if err != nil {
		return greeting{}, fmt.Errorf("settings: %w", err)
	}
	raw, err := w.call(ctx, "initialize", params, &scene{})
	if err != nil {
		return greeting{}, fmt.Errorf("start of the environment: %w", err)
	}
	return readGreeting(raw)
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range p.slots {
		wg.Go(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.w != nil {
				s.w.close()
			}
		})
	}
	wg.Wait()
	return nil
}

// hello are the params of initialize.
func hello(c Config, worker int) any {
	return struct {
		Protocol int            `json:"protocol"`
		Settings map[string]any `json:"settings"`
		Worker   int            `json:"worker"`
		Workers  int            `json:"workers"`
	}{Protocol, c.Settings, worker, c.Workers}
}

func readGreeting(raw json.RawMessage) (greeting, error) {
	var g greeting
	if err := json.Unmarshal(raw, &g); err != nil {
		return g, broken("the program's answer to initialize: %w", err)
	}
	if err := g.checked(); err != nil {
		return g, broken("%w", err)
	}
	g.Concurrency = cmp.Or(g.Concurrency, 1)
	return g, nil
}

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hermes/backends"
	"hermes/backends/pool"
)

// poolRows ask what a pool in front of the back-end promises, with real boxes.
func poolRows() []Row {
	return []Row{
		{Number: 74, Name: "reset list", run: resetList},
		{Number: 75, Name: "failed wipe", run: failedWipe},
		{Number: 76, Name: "fairness", run: fairness},
		{Number: 77, Name: "cancelled waiter", run: cancelledWaiter},
		{Number: 78, Name: "breaker", run: breaker},
		{Number: 79, Name: "create limiter", run: createLimiter},
		{Number: 80, Name: "release error", run: releaseError},
		{Number: 81, Name: "drain", run: drained},
		{Number: 87, Name: "figures of a command", run: figures},
		{Number: 88, Name: "batch", run: batch},
	}
}

// shared is the row's back-end behind a pool, which must not close it.
type shared struct {
	backends.Backend
	mu      sync.Mutex
	opening int
	most    int
	open    func() error // before a box is made
	close   func() error // before a box is closed
}

func (s *shared) Close(context.Context) error { return nil }

func (s *shared) Open(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	s.mu.Lock()
	s.opening++
	s.most = max(s.most, s.opening)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.opening--
		s.mu.Unlock()
	}()
	if s.open != nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	b, err := s.Backend.Open(ctx, spec)
	if err != nil || s.close == nil {
		return b, err
	}
	return &unwilling{b, s.close}, nil
}

// unwilling is a box whose closing may fail.
type unwilling struct {
	backends.Sandbox
	close func() error
}

func (u *unwilling) Close(ctx context.Context) error {
	if err := u.close(); err != nil {
		return err
	}
	return u.Sandbox.Close(ctx)
}

// pool puts a pool in front of the row's back-end.
func (e *Env) pool(s *shared, o pool.Options) *pool.Pool {
	e.Helper()
	s.Backend = e.back
	p, err := pool.New(e.ctx, s, o)
	if err != nil {
		e.Fatalf("pool: %v", err)
	}
	e.later = append(e.later, func(ctx context.Context) error {
		err := p.Close(ctx)
		if s := p.Status(); s.Used != 0 || s.Leased != 0 || s.Waiting != 0 {
			err = errors.Join(err, fmt.Errorf("the pool's books do not balance: %+v", s))
		}
		return err
	})
	return p
}

// lease takes a box from a pool.
func (e *Env) lease(p *pool.Pool, s backends.Spec) backends.Sandbox {
	e.Helper()
	b, err := p.Open(e.ctx, s)
	if err != nil {
		e.Fatalf("lease: %v", err)
	}
	return b
}

// reset makes the row's box as new; a box that was not made for it ends the row.
func (e *Env) reset() backends.Cleaned {
	e.Helper()
	done, err := ability[backends.Resetter](e).Reset(e.ctx, backends.ResetFiles)
	if errors.Is(err, errors.ErrUnsupported) {
		e.Skipf("the box was not made for resets")
	}
	if err != nil {
		e.Fatalf("reset: %v", err)
	}
	return done
}

func resetList(e *Env) {
	e.reset()
	came := e.sh("ls -A") // with the image
	e.sh(`mkdir -p .a/..b d; touch -- .x ..y ...z "-r" .a/..b/f d/f; ln -s / root; chmod 0 d; mkfifo p; touch "$(printf 'a\nb')"
		(setsid sh -c 'trap "" TERM; echo $$ >> pids; exec sleep 1000' >/dev/null 2>&1 &); (sleep 1000 >/dev/null 2>&1 & echo $! >> pids; kill -STOP $!)`)
	e.until("start of the processes", func() bool { return len(e.pids(e.box())) == 2 })
	pids := e.read("pids")
	if done := e.reset(); len(done.Left) > 0 || done.Removed < 9 {
		e.Errorf("reset: %+v", done)
	}
	if got := e.sh("ls -A"); got != came {
		e.Errorf("left: %q, of %q that came with the box", got, came)
	}
	e.write("pids", pids)
	e.gone(e.box())
}

func failedWipe(e *Env) {
	e.reset()
	moved := e.exec(backends.Cmd{Shell: `h=$(pwd); cd /; mv "$h" "$h.away" && mkdir "$h"`})
	if moved.Code != 0 && strings.Contains(string(moved.Stderr), "busy") {
		e.Skipf("the home is a mount, which no command can replace")
	}
	if moved.Code != 0 {
		e.Fatalf("replace the home: code %d, %s", moved.Code, moved.Stderr)
	}
	if done := e.reset(); len(done.Left) == 0 {
		e.Errorf("the home was replaced and the box passes for clean: %+v", done)
	}
	e.exec(backends.Cmd{Shell: `h=$(pwd); rm -rf "$h.away"; :`})
}

// fairness: of two runs, one with many wants and one with few, both get boxes.
func fairness(e *Env) {
	p := e.pool(&shared{}, pool.Options{Max: 2})
	first := []backends.Sandbox{e.lease(p, label("big")), e.lease(p, label("big"))}
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	ask := func(run string, n int) {
		for range n {
			all.Go(func() {
				b, err := p.Open(e.ctx, label(run))
				if err != nil {
					e.Errorf("run %s: %v", run, err)
					return
				}
				mu.Lock()
				order = append(order, run)
				mu.Unlock()
				b.Close(e.ctx)
			})
		}
	}
	ask("big", 6)
	e.until("the big run waits", func() bool { return p.Status().Waiting == 6 })
	ask("small", 1)
	e.until("both wait", func() bool { return p.Status().Waiting == 7 })
	for _, b := range first {
		b.Close(e.ctx)
	}
	all.Wait()
	if i := slices.Index(order, "small"); i > 2 {
		e.Errorf("the small run came last: %v", order)
	}
}

func label(run string) backends.Spec {
	return backends.Spec{Labels: map[string]string{pool.RunLabel: run}}
}

func cancelledWaiter(e *Env) {
	p := e.pool(&shared{}, pool.Options{Max: 1})
	b := e.lease(p, backends.Spec{})
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := p.Open(ctx, backends.Spec{})
		done <- err
	}()
	e.until("it waits", func() bool { return p.Status().Waiting == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		e.Errorf("error %v", err)
	}
	b.Close(e.ctx)
	e.lease(p, backends.Spec{}).Close(e.ctx)
}

func breaker(e *Env) {
	var mu sync.Mutex
	ill := true
	ails := errors.New("ill")
	p := e.pool(&shared{open: func() error {
		mu.Lock()
		defer mu.Unlock()
		if ill {
			return ails
		}
		return nil
	}}, pool.Options{Max: 2, Breaker: 2, Cooldown: 1})
	if _, err := p.Open(e.ctx, backends.Spec{}); !errors.Is(err, ails) {
		e.Errorf("error %v", err)
	}
	mu.Lock()
	ill = false
	mu.Unlock()
	e.lease(p, backends.Spec{}).Close(e.ctx)
	if s := p.Status(); s.Tripped != 1 || s.Failed < 2 {
		e.Errorf("%+v", s)
	}
}

func createLimiter(e *Env) {
	s := &shared{}
	p := e.pool(s, pool.Options{Max: 6, Creates: 2})
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if b, err := p.Open(e.ctx, backends.Spec{}); err != nil {
				e.Errorf("open: %v", err)
			} else {
				b.Close(e.ctx)
			}
		})
	}
	all.Wait()
	if s.most > 2 {
		e.Errorf("%d were made at once", s.most)
	}
}

func releaseError(e *Env) {
	fails := 1
	p := e.pool(&shared{close: func() error {
		fails--
		if fails >= 0 {
			return errors.New("busy")
		}
		return nil
	}}, pool.Options{Max: 1})
	if err := e.lease(p, backends.Spec{}).Close(e.ctx); err != nil {
		e.Errorf("the rollout saw it: %v", err)
	}
	e.lease(p, backends.Spec{}).Close(e.ctx)
	if s := p.Status(); s.Unremoved != 1 {
		e.Errorf("%+v", s)
	}
}

func drained(e *Env) {
	p := e.pool(&shared{}, pool.Options{Max: 2})
	b := e.lease(p, backends.Spec{})
	done := make(chan error, 1)
	go func() { done <- p.Drain(e.ctx) }()
	e.until("no more leases", func() bool {
		x, err := p.Open(e.ctx, backends.Spec{})
		if err == nil {
			x.Close(e.ctx)
		}
		return errors.Is(err, backends.ErrClosed)
	})
	if _, err := b.Exec(e.ctx, backends.Cmd{Shell: "true"}); err != nil {
		e.Errorf("the lease in force: %v", err)
	}
	b.Close(e.ctx)
	if err := <-done; err != nil {
		e.Errorf("drain: %v", err)
	}
}

// figures looks whether time and bytes of a result can be believed.
func figures(e *Env) {
	r := e.exec(backends.Cmd{Shell: "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; printf 12345; printf 123 >&2"})
	if r.Took <= 0 || r.CPU <= 0 || r.CPU > 2*r.Took || r.OutBytes != 5 || r.ErrBytes != 3 {
		e.Errorf("%+v", r)
	}
}

// batch: outcomes come in the order of their commands, and one failure stays alone.
func batch(e *Env) {
	closed := e.open(backends.Spec{})
	if err := closed.Close(e.ctx); err != nil {
		e.Fatalf("close: %v", err)
	}
	boxes := []backends.Sandbox{e.open(backends.Spec{}), e.open(backends.Spec{})}
	var jobs []backends.Job
	for i := range 12 {
		x := boxes[i%2]
		if i == 5 {
			x = closed
		}
		jobs = append(jobs, backends.Job{Box: x, Cmd: backends.Cmd{Shell: fmt.Sprintf("echo %d; exit %d", i, i)}})
	}
	for i, d := range backends.ExecBatch(e.ctx, jobs, 4) {
		switch {
		case i == 5:
			if !errors.Is(d.Err, backends.ErrClosed) {
				e.Errorf("the closed box: %v", d.Err)
			}
		case d.Err != nil || d.Result.Code != i || strings.TrimSpace(string(d.Result.Stdout)) != strconv.Itoa(i):
			e.Errorf("command %d: %+v, %v", i, d.Result, d.Err)
		}
	}
}

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hermes/internal/atropos/client"
)

// registerEvery is how many looks at the queue pass between two tries to register.
const registerEvery = 4

// connect registers at the start. That there is no trainer is found here, before anything
// is spent.
func (s *Server) connect(ctx context.Context, drain <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-drain:
			cancel(context.Canceled)
		case <-ended:
		}
	}()
	info, err := s.c.Info(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: no trajectory server answers (start 'hermes run-api' or Atropos' run-api, or name another --api): %w", ErrTrainer, err)
	}
	if info.BatchSize > 0 { // it says better what to change than the server does
		if err := s.fits(info); err != nil {
			return fmt.Errorf("%w: %w", ErrTrainer, err)
		}
	}
	s.o.Say("waiting for the trainer")
	wctx, over := context.WithTimeoutCause(ctx, s.o.Wait, fmt.Errorf("no trainer within --wait %v", s.o.Wait))
	defer over()
	err = s.register(wctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wctx.Err() != nil:
		return fmt.Errorf("%w: the trajectory server answers, but %w after %v: start the trainer, which registers (POST /register) and asks for a batch (GET /batch), or give it longer with --wait", ErrTrainer, client.ErrWait, s.o.Wait)
	}
	return fmt.Errorf("%w: %w", ErrTrainer, err)
}

// register lets every environment in; it waits for a trainer as long as ctx does.
func (s *Server) register(ctx context.Context) (err error) {
	step, total := int64(0), int64(-1)
	type in struct {
		id   int
		name string
	}
	var list []in
	defer func() {
		if err != nil { // an environment that is not served has no share of the batches
			for _, x := range list {
				s.disconnect(ctx, x.id, x.name)
			}
		}
	}()
	weights := 0.0
	for _, e := range s.envs {
		weights += e.Weight
	}
	for _, e := range s.envs {
		w := client.Registration{MaxTokenLength: s.o.MaxTokenLength, DesiredName: e.Desired, GroupSize: s.o.GroupSize,
			Weight: e.Weight / float64(s.o.Replicas), MinAllocation: s.o.MinAllocation, Instance: s.instance}
		for try := 1; ; try++ {
			got, err := s.c.Register(ctx, w)
			if err == nil {
				list = append(list, in{got.EnvID, got.Name})
				step, total = got.StartingStep, got.NumSteps
				break
			}
			if !errors.Is(err, client.ErrWait) || !pause(ctx, registerEvery*s.o.Poll) {
				return err
			}
		}
	}
	info, err := s.c.Info(ctx)
	if err != nil {
		return err
	}
	if err := s.fits(info); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.envs {
		e.id = list[i].id
		e.name = list[i].name
		e.posted = 0
		e.status = client.Status{Step: step, Unallocated: 1, MaxGroup: 1, Weight: e.Weight / weights}
		s.o.Say(fmt.Sprintf("registered %s as %s (environment %d), trainer at step %d, batches of %d sequences", e.Name, e.name, e.id, step, info.BatchSize))
	}
	s.step = step
	s.batch = info.BatchSize
	s.maxLen = info.MaxTokenLen
	s.total = s.o.TotalSteps
	s.total = cmp.Or(s.total, total)
	return nil
}

// disconnect says that an environment is gone.
func (s *Server) disconnect(ctx context.Context, id int, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.c.Disconnect(ctx, id); err != nil {
		s.o.Log.Warn("disconnect", "env", name, "err", err)
	}
}

// fits refuses sizes with which no batch would ever be full. The server would wait for
// ever without a word.
func (s *Server) fits(i client.Info) error {
	g := s.o.GroupSize
	switch {
	case i.BatchSize <= 0:
		return fmt.Errorf("the trajectory server has the batch size %d: groups reached it before the trainer registered, or it was reset; restart it (or GET /reset_data) and then the trainer", i.BatchSize)
	case g > i.BatchSize:
		return fmt.Errorf("--group-size %d is more than the trainer's batch of %d sequences: no batch would ever be full; take a smaller group or a bigger batch", g, i.BatchSize)
	case i.BatchSize%g != 0:
		return fmt.Errorf("--group-size %d does not divide the trainer's batch of %d sequences: no batch would ever be full; %s", g, i.BatchSize, divisors(i.BatchSize, g))
	case s.o.Rules.Overlong != nil && i.MaxTokenLen > 0 && s.o.Rules.Overlong.SoftFrom >= i.MaxTokenLen:
		return fmt.Errorf("training.overlong: soft_from %d is not below the trainer's longest sequence of %d tokens: it would never count", s.o.Rules.Overlong.SoftFrom, i.MaxTokenLen)
	}
	return nil
}

// divisors names the sizes next to g that would do.
func divisors(batch, g int) string {
	low, high := 0, 0
	for n := 1; n <= batch; n++ {
		if batch%n == 0 && n < g {
			low = n
		} else if batch%n == 0 && high == 0 {
			high = n
		}
	}
	return fmt.Sprintf("%d and %d would do", low, high)
}

// conduct looks at the queue again and again, follows the trainer's steps, and registers
// again with a server that was restarted. Evaluations may go on behind its end.
func (s *Server) conduct(ctx, evals context.Context) {
	away := false
	for {
		err := s.look(ctx, evals)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !away:
			away = true
			s.o.Log.Warn("the trajectory server does not answer: nothing new is begun until it does", "err", err)
		case err == nil && away:
			away = false
			s.o.Log.Warn("the trajectory server answers again")
		}
		if !pause(ctx, s.o.Poll) {
			return
		}
	}
}

// look asks for the state of every environment.
func (s *Server) look(ctx, evals context.Context) error {
	s.mu.Lock()
	doubts, before := s.doubts, s.step
	posted := make([]int, len(s.envs))
	for i, e := range s.envs {
		posted[i] = e.posted
	}
	s.mu.Unlock()
	list := make([]client.Status, len(s.envs))
	for i, e := range s.envs {
		var err error
		list[i], err = s.c.Status(ctx, e.id)
		if err != nil {
			return s.lost(ctx, err)
		}
		if list[i].Step < before {
			return s.lost(ctx, fmt.Errorf("the trainer was at step %d and is at %d", before, list[i].Step))
		}
	}
	s.mu.Lock()
	for i, e := range s.envs {
		e.status, e.posted = list[i], e.posted-posted[i]
		s.step = max(s.step, list[i].Step)
	}
	if s.doubts == doubts && !s.online {
		s.online = true
	}
	s.finish()
	now := s.step
	s.changed()
	s.mu.Unlock()
	if now != before {
		return s.stepped(ctx, evals, before, now)
	}
	return nil
}

// finish ends admission when what is queued is enough for the steps that are left. The
// caller holds mu.
func (s *Server) finish() {
	if s.total <= 0 || s.batch <= 0 || s.done {
		return
	}
	queued := 0
	for _, e := range s.envs {
		queued = max(queued, e.status.Queue)
	}
	if s.step+int64(queued*s.o.GroupSize/s.batch) >= s.total {
		s.done = true
		s.o.Say(fmt.Sprintf("the trainer has what it needs for its %d steps", s.total))
	}
}

// lost handles a server that does not know us any more; a server that does not answer is
// asked again later.
func (s *Server) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	s.mu.Lock()
	s.online = false
	s.mu.Unlock()
	var e *client.Error
	if errors.As(err, &e) && (e.Status == 0 || e.Busy()) {
		return err
	}
	s.o.Log.Warn("the trajectory server does not know this environment any more: registering again", "err", err)
	before := s.step
	if err := s.register(ctx); err != nil {
		if ctx.Err() == nil && (!errors.As(err, &e) || e.Status >= 400 && e.Status < 500 && !e.Busy()) { // sizes that do not fit
			s.stop(fmt.Errorf("the trajectory server was reset or started again: %w", err))
			s.quit() // what is finished cannot be posted; its rows are served again by the next start
		}
		return err
	}
	s.mu.Lock()
	if s.step < before {
		s.rewind(before)
	}
	s.online, s.doubts = true, s.doubts+1
	forgotten := s.forgotten
	s.forgotten = nil
	s.changed()
	s.mu.Unlock()
	for _, g := range forgotten {
		s.drop(g, "rewound")
	}
	return s.keep(ctx, false)
}

// stepped is called when the trainer went on.
func (s *Server) stepped(ctx, evals context.Context, before, now int64) error {
	if n := s.o.StepsPerEval; n > 0 && before/n < now/n {
		s.evaluate(evals, now)
	}
	if err := s.keep(ctx, true); err != nil {
		s.stop(err)
		return err
	}
	if err := s.report(false); err != nil {
		s.stop(err)
	}
	return nil
}

// suspect is called when a post failed: nothing is posted until the server was asked.
func (s *Server) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.online, s.doubts = false, s.doubts+1
}

// session waits until the environment is registered with a server that answers.
func (s *Server) session(ctx context.Context, e *env) (id int, err error) {
	for {
		s.mu.Lock()
		online := s.online
		wake := s.wake
		id := e.id
		s.mu.Unlock()
		if online {
			return id, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

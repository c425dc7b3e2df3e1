package serve

import (
	"context"
	"errors"
	"time"
)

// evaluate starts the evaluation of every environment that has one, unless one is under
// way still.
func (s *Server) evaluate(ctx context.Context, step int64) {
	for _, e := range s.envs {
		if e.Evaluate == nil {
			continue
		}
		s.mu.Lock()
		busy := e.evaluating
		e.evaluating = true
		s.mu.Unlock()
		if busy {
			s.o.Log.Warn("an evaluation is left out: the one before it is not finished", "env", e.name, "step", step)
			continue
		}
		s.evals.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				e.evaluating = false
				s.changed()
			}()
			err := s.evaluateOne(ctx, e, step)
			switch {
			case err != nil && ctx.Err() != nil:
				s.o.Log.Warn("an evaluation is cut off by the end of the run", "env", e.name, "step", step)
			case err != nil:
				s.o.Log.Warn("an evaluation failed", "env", e.name, "step", step, "err", err)
			}
		})
	}
}

// awaitEvals lets evaluations that are under way come to their end when the run came to its
// own; where it was stopped, or is now, they are cut off.
func (s *Server) awaitEvals(ctx context.Context, cut func(), stopped bool, drain <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		s.evals.Wait()
		close(ended)
	}()
	if !stopped {
		select {
		case <-ended:
		case <-drain:
		case <-ctx.Done():
		}
	}
	cut()
	<-ended
}

func (s *Server) evaluateOne(ctx context.Context, e *env, step int64) error {
	began := time.Now()
	figures, err := e.Evaluate(ctx)
	if err != nil {
		return err
	}
	line := metricsLine{Time: time.Now().UTC(), Step: step, Metrics: map[string]float64{}}
	for name, f := range figures {
		line.Metrics[e.name+"_eval/"+name] = f
	}
	if len(line.Metrics) == 0 {
		return errors.New("no figures")
	}
	line.Metrics[e.name+"_eval/seconds"] = time.Since(began).Seconds()
	s.met.evaluated(e, line.Metrics)
	return s.tell(line)
}

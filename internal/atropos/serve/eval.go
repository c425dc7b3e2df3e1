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
			if err := s.evaluateOne(ctx, e, step); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("an evaluation failed", "env", e.name, "step", step, "err", err)
			}
		})
	}
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

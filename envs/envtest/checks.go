package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// load reads the first rows of the split.
func (s *suite) load(ctx context.Context) (rows []datasets.Row, err error) {
	d, err := s.env.Rows(ctx, s.o.Split, datasets.Options{Limit: int64(s.o.Rows)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func rowsAgain(ctx context.Context, s *suite) error {
	first, err := s.load(ctx)
	if err != nil {
		return err
	}
	if len(first) == 0 {
		return fmt.Errorf("split %s has no rows", s.o.Split)
	}
	again, err := s.load(ctx)
	if err != nil {
		return err
	}
	if len(again) != len(first) {
		return fmt.Errorf("%d rows, then %d", len(first), len(again))
	}
	seen := map[string]bool{}
	for i, row := range first {
		if seen[row.ID] {
			return fmt.Errorf("two rows have the id %q", row.ID)
		}
		seen[row.ID] = true
		if a, b := show(row), show(again[i]); a != b {
			return fmt.Errorf("row %d differs when it is read again:\n%s\n%s", i, a, b)
		}
	}
	s.rows = first
	return nil
}

func tasksAgain(_ context.Context, s *suite) error {
	for _, row := range s.rows {
		a, err := s.env.Task(row)
		if err != nil {
			return err
		}
		b, err := s.env.Task(row)
		if err != nil {
			return err
		}
		if len(a.Messages) == 0 {
			return fmt.Errorf("row %s: the task has no messages", row.ID)
		}
		a.Hidden, b.Hidden = nil, nil
		if x, y := show(a), show(b); x != y {
			return fmt.Errorf("row %s gives another task the second time:\n%s\n%s", row.ID, x, y)
		}
	}
	return nil
}

// show is a value as JSON, for comparisons.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// turns is what the oracle says.
func (s *suite) turns(row datasets.Row) ([]trajectory.Message, error) {
	o, ok := s.env.(envs.Oracle)
	if !ok {
		return nil, skip("the environment has no oracle")
	}
	t, err := s.env.Task(row)
	if err != nil {
		return nil, err
	}
	m, err := o.Oracle(t)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, skip(err.Error())
	}
	return m, err
}

// scored plays a row and returns its score.
func (s *suite) scored(ctx context.Context, env envs.Env, row datasets.Row, sample int, turns []trajectory.Message) (trajectory.Score, error) {
	rec, err := s.play.Play(ctx, env, row, sample, turns)
	switch {
	case err != nil:
		return trajectory.Score{}, err
	case rec.Outcome.Failure():
		return trajectory.Score{}, fmt.Errorf("row %s: failed.%s (%s): %s", row.ID, rec.Outcome, rec.Cause, rec.Reason)
	case rec.Score == nil:
		return trajectory.Score{}, fmt.Errorf("row %s: no score", row.ID)
	}
	return *rec.Score, nil
}

func oracle(ctx context.Context, s *suite) error {
	for _, row := range s.rows {
		turns, err := s.turns(row)
		if err != nil {
			return err
		}
		got, err := s.scored(ctx, s.env, row, 0, turns)
		if err != nil {
			return err
		}
		if got.Reward != 1 {
			return fmt.Errorf("row %s: the oracle earns %v: %s", row.ID, got.Reward, got.Detail)
		}
	}
	return nil
}

func null(ctx context.Context, s *suite) error {
	for _, row := range s.rows {
		got, err := s.scored(ctx, s.env, row, 0, nil)
		if err != nil {
			return err
		}
		if got.Reward != 0 {
			return fmt.Errorf("row %s: doing nothing earns %v: %s", row.ID, got.Reward, got.Detail)
		}
	}
	return nil
}

// repeats plays oracle and null many times, several at once, each scored twice.
func repeats(ctx context.Context, s *suite) error {
	for _, row := range s.rows {
		turns, err := s.turns(row)
		if err != nil && !errors.As(err, new(skip)) {
			return err
		}
		scripts := [][]trajectory.Message{nil}
		if err == nil {
			scripts = append(scripts, turns)
		}
		for _, script := range scripts {
			if err := s.agree(ctx, row, script); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *suite) agree(ctx context.Context, row datasets.Row, turns []trajectory.Message) error {
	scores, errs := make([]trajectory.Score, s.o.Repeats), make([]error, s.o.Repeats)
	var wg sync.WaitGroup
	places := make(chan struct{}, s.o.AtOnce)
	for i := range s.o.Repeats {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			env := &twice{wrapper: wrapper{s.env}}
			scores[i], errs[i] = s.scored(ctx, env, row, i, turns)
			if env.differ != nil {
				errs[i] = env.differ
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, got := range scores {
		if got.Reward != scores[0].Reward || show(got.Parts) != show(scores[0].Parts) {
			return fmt.Errorf("row %s: repeat %d earns %v %s, the first %v %s", row.ID, i+1, got.Reward, show(got.Parts), scores[0].Reward, show(scores[0].Parts))
		}
	}
	return nil
}

// twice scores everything a second time, in one rollout. What differs is kept, because the
// loop tries a scorer that fails again, and the second try may agree with itself.
type twice struct {
	wrapper
	differ error
}

func (e *twice) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	a, err := e.Env.Score(ctx, t, w, ep)
	if err != nil {
		return a, err
	}
	b, err := e.Env.Score(ctx, t, w, ep)
	switch {
	case err != nil:
		e.differ = fmt.Errorf("row %s, scored again in the same box: %w", t.Row.ID, err)
	case a.Reward != b.Reward && !(math.IsNaN(a.Reward) && math.IsNaN(b.Reward)):
		e.differ = fmt.Errorf("row %s, scored again in the same box: %v, the first time %v", t.Row.ID, b.Reward, a.Reward)
	}
	return a, nil
}

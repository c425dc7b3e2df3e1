package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"hermes/backends"
	"hermes/envs"
	"hermes/rollout/artifact"
	"hermes/trajectory"
)

// score judges the episode, in the box that the task is to be judged in. A scorer that fails
// is tried again on the same box, then the sample is void. A scorer that comes to no
// judgement is asked in a box without a model, which tells whose doing it is.
func (a *attempt) score(ctx context.Context, errs []envs.ToolError) error {
	ep := envs.Episode{Trace: a.trace, Stop: a.rec.Stop, Errors: errs}
	if a.rec.Outcome == trajectory.Faulty {
		a.box.drop()
		if err := a.imageRuns(ctx); err != nil {
			return err
		}
	}
	box, err := a.scene(ctx)
	if errors.Is(err, backends.ErrBroken) || errors.As(err, new(*brokenError)) {
		box, ep.Stop, err = nil, a.broke(err), nil
	}
	if err != nil {
		return err
	}
	score, err := a.try(ctx, ep, box)
	var others []string // programs that are not the image's
	if err == nil && score.Reward > 0 && a.rec.Verified == envs.VerifySame {
		others, err = a.replaced(ctx, box)
	}
	switch {
	case errors.Is(err, backends.ErrBroken): // by what the model left, while we looked
		ep.Stop, box = a.broke(err), nil
		score, err = a.try(ctx, ep, nil)
	case envs.IsNoVerdict(err) && box != nil:
		return a.attribute(ctx, box, err)
	case len(others) > 0:
		what := strings.Join(others, ", ")
		a.broke(fmt.Errorf("the programs that judge are not those of the image: %s", what))
		a.hacks = append(a.hacks, envs.Hack{Kind: "programs_replaced", Text: what})
		score = trajectory.Score{Detail: "the programs that judge were replaced: " + what}
	}
	return a.settle(ctx, box, score, err)
}

// try asks the scorer, again where it fails by itself.
func (a *attempt) try(ctx context.Context, ep envs.Episode, box backends.Sandbox) (score trajectory.Score, err error) {
	for range a.runner.o.ScoreTries {
		score, err = a.scoreOnce(ctx, ep, box)
		if err == nil || ctx.Err() != nil || envs.IsNoVerdict(err) || errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) ||
			errors.As(err, new(*judgeError)) { // a judge tries by itself
			break
		}
	}
	return score, err
}

// broke books the sample as one whose box the model broke, and returns how the scorer is to
// see its end.
func (a *attempt) broke(why error) trajectory.Stop {
	a.rec.Outcome, a.rec.Cause, a.rec.Reason = trajectory.Faulty, string(trajectory.StopFaultyBox), why.Error()
	return trajectory.Stop{Reason: trajectory.StopFaultyBox, Detail: why.Error()}
}

// settle books the score or says whose fault it is that there is none.
func (a *attempt) settle(ctx context.Context, box backends.Sandbox, score trajectory.Score, err error) error {
	switch {
	case errors.Is(err, envs.ErrUnscored):
		err = nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, backends.ErrLost), errors.Is(err, backends.ErrImage), errors.Is(err, backends.ErrUnavailable):
		return &stageError{trajectory.Sandbox, "score", err}
	case errors.As(err, new(*judgeError)):
		err = &stageError{trajectory.Environment, "judge", err}
	case err != nil:
		err = &stageError{trajectory.Environment, "score", err}
	default:
		a.rec.Score = a.suspected(&score)
	}
	a.keep(ctx, box, err)
	return err
}

// keep hands over what the scorer saw. A failure is a note, never a loss of the sample.
func (a *attempt) keep(ctx context.Context, box backends.Sandbox, failed error) {
	o := a.runner.o
	if o.Keep == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Deadlines.Keep, fmt.Errorf("keeping took longer than %v", o.Deadlines.Keep))
	defer cancel()
	s := artifact.Scene{Record: a.rec, Task: a.task, Box: box, Since: a.box.made(), Exhibits: a.saw, Err: failed,
		Images: a.task.Image != "" || path.IsAbs(a.task.Dir)}
	if err := o.Keep(ctx, s); err != nil {
		a.rec.Notes = append(a.rec.Notes, "artifacts: "+err.Error())
	}
}

// scoreOnce asks the scorer once. A scorer whose time is over in a box has come to no
// judgement.
func (a *attempt) scoreOnce(ctx context.Context, ep envs.Episode, box backends.Sandbox) (s trajectory.Score, err error) {
	a.saw, a.hacks = nil, nil
	w := a.world(box)
	w.Saw = func(x envs.Exhibit) { a.saw = append(a.saw, x) }
	w.Suspects = func(h envs.Hack) { a.hacks = append(a.hacks, h) }
	return a.ask(ctx, ep, w)
}

func (a *attempt) ask(ctx context.Context, ep envs.Episode, w envs.World) (s trajectory.Score, err error) {
	d := max(a.runner.o.Deadlines.Score, a.task.ScoreTime)
	late := fmt.Errorf("the scorer took longer than %v", d)
	sctx, cancel := context.WithTimeoutCause(ctx, d, late)
	defer cancel()
	s, err = a.runner.o.Env.Score(sctx, a.task, w, ep)
	switch {
	case err == nil:
		err = finite(s)
	case sctx.Err() != nil && ctx.Err() == nil && w.Box != nil && !errors.Is(err, backends.ErrLost) && !errors.Is(err, backends.ErrBroken):
		err = fmt.Errorf("%w: %w", &envs.NoVerdict{What: late.Error()}, err)
	}
	return s, err
}

// finite refuses scores that no trainer and no report could use.
func finite(s trajectory.Score) error {
	bad := func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }
	if bad(s.Reward) {
		return fmt.Errorf("the scorer gave the reward %v", s.Reward)
	}
	for i, f := range s.Turns {
		if bad(f) {
			return fmt.Errorf("the scorer gave turn %d the reward %v", i+1, f)
		}
	}
	for kind, m := range map[string]map[string]float64{"part": s.Parts, "metric": s.Metrics} {
		for name, f := range m {
			if bad(f) {
				return fmt.Errorf("the scorer gave the %s %s as %v", kind, name, f)
			}
		}
	}
	return nil
}

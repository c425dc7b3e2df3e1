package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/envs"
	"hermes/trajectory"
)

// mode is where the task is scored: as the task says, as the run says, as the environment
// is used to.
func (a *attempt) mode() string {
	v := a.task.Verify
	return cmp.Or(v.Mode, a.runner.o.Verify, v.Default, envs.VerifySame)
}

// scene returns the box to score in; nil: there is none.
func (a *attempt) scene(ctx context.Context) (backends.Sandbox, error) {
	if a.rec.Outcome == trajectory.Faulty {
		return nil, nil
	}
	box := a.box.opened()
	n, ok := a.runner.o.Env.(envs.NeedsBox)
	needed := ok && n.NeedsBox(a.task)
	if box == nil && needed {
		var err error
		box, err = a.box.get(ctx)
		if err != nil {
			return nil, err
		}
	}
	if box == nil || !needed {
		return box, nil
	}
	a.rec.Verified = a.mode()
	if a.rec.Verified == envs.VerifySame {
		return a.quiet(box), nil
	}
	return a.moved(ctx, box)
}

// quiet is the model's own box with nothing of the model's running in it, unless the task
// wants that.
func (a *attempt) quiet(box backends.Sandbox) backends.Sandbox {
	if a.task.Processes || len(a.rec.ToolStats) == 0 {
		return box
	}
	return &quietBox{Sandbox: box, ended: func(n int) {
		if n > 0 {
			a.rec.Notes = append(a.rec.Notes, fmt.Sprintf("%d processes that the model left running were ended before scoring", n))
		}
	}}
}

// quietBox ends what runs in the box before the first thing that is done in it.
type quietBox struct {
	backends.Sandbox
	ended func(n int)
	once  sync.Once
}

// Unwrap gives the box behind it.
func (q *quietBox) Unwrap() backends.Sandbox { return q.Sandbox }

// Exec implements backends.Sandbox.
func (q *quietBox) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	q.once.Do(func() { c.Alone = true })
	r, err := q.Sandbox.Exec(ctx, c)
	if c.Alone {
		q.ended(r.Ended)
	}
	return r, err
}

// ReadFile implements backends.Sandbox.
func (q *quietBox) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := q.hush(ctx); err != nil {
		return nil, err
	}
	return q.Sandbox.ReadFile(ctx, path, limit)
}

// WriteFile implements backends.Sandbox.
func (q *quietBox) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	if err := q.hush(ctx); err != nil {
		return err
	}
	return q.Sandbox.WriteFile(ctx, path, data, perm)
}

func (q *quietBox) hush(ctx context.Context) (err error) {
	q.once.Do(func() {
		var r backends.Result
		r, err = q.Sandbox.Exec(ctx, alone)
		q.ended(r.Ended)
	})
	return err
}

// alone does nothing but end what runs; that its program may be gone does not matter.
var alone = backends.Cmd{Argv: []string{"true"}, Dir: "/", Alone: true, Timeout: time.Minute}

// pulse tells whether a box is still there; what it answers does not matter.
var pulse = backends.Cmd{Argv: []string{"true"}, Dir: "/", Timeout: 10 * time.Second}

// attribute finds out why the scorer came to no judgement: it is asked once more in a new
// box, with what the task starts with and no model's work. Where it judges there, the model
// broke it: that is scored. The boxes of the sample are given back first, so that no rollout
// waits for a place while it holds one.
func (a *attempt) attribute(ctx context.Context, box backends.Sandbox, none error) error {
	if box != nil {
		// A box that goes away takes the scorer with it, which then ends by a signal as if the model had killed it.
		if _, err := box.Exec(ctx, pulse); err != nil && !errors.Is(err, backends.ErrBroken) {
			return a.settle(ctx, box, trajectory.Score{}, fmt.Errorf("%w; then the box: %w", none, err))
		}
	}
	reason := a.rec.Reason
	outcome, cause := a.rec.Outcome, a.rec.Cause
	a.broke(fmt.Errorf("the scorer judges nothing after the model's work: %w", none))
	score := trajectory.Score{Detail: none.Error()}
	a.rec.Score = a.suspected(&score)
	a.keep(ctx, box, nil)
	if _, known := a.runner.judges.Load(a.task.Row.ID); known {
		return nil
	}
	err := a.control(ctx)
	if envs.Copied(none, err) { // of this row another sample may say something else
		return nil
	}
	if err == nil {
		a.runner.judges.Store(a.task.Row.ID, true)
		return nil
	}
	a.rec.Score, a.rec.Outcome, a.rec.Cause, a.rec.Reason = nil, outcome, cause, reason
	if envs.IsNoVerdict(err) {
		err = fmt.Errorf("%w; in a new box without the model's work neither: %w", none, err)
	}
	return a.settle(ctx, nil, trajectory.Score{}, err)
}

// control asks the scorer in a box that no model has seen. The error is an [envs.NoVerdict]
// where it comes to no judgement there either.
func (a *attempt) control(ctx context.Context) error {
	box, closing, err := a.another(ctx, a.mode() == envs.VerifySeparate)
	if err != nil {
		return err
	}
	defer closing()
	if err := a.shellRuns(ctx, box); err != nil {
		return err
	}
	empty := trajectory.New(a.runner.o.Policy.Info().Mode, nil)
	empty.Finish(nil)
	ep := envs.Episode{Trace: empty, Stop: trajectory.Stop{Reason: trajectory.StopAnswer}}
	w := a.world(box)
	w.Control, w.State, w.Tools = true, new(envs.State), caller{}
	w.BoxState = w.State
	if err := a.fill(ctx, w); err != nil {
		return err
	}
	_, err = a.ask(ctx, ep, w)
	if s, ok := a.runner.o.Env.(envs.Solver); ok && envs.IsNoVerdict(err) {
		if serr := s.Solve(ctx, a.task, w); serr != nil && !errors.Is(serr, errors.ErrUnsupported) {
			return fmt.Errorf("%w; the reference solution: %w", err, serr)
		} else if serr == nil {
			_, err = a.ask(ctx, ep, w)
		}
	}
	if errors.Is(err, envs.ErrUnscored) {
		return nil
	}
	return err
}

// another opens a box of the task beside its own, which is given back first.
func (a *attempt) another(ctx context.Context, separate bool) (backends.Sandbox, func(), error) {
	if err := a.giveBack(ctx); err != nil {
		a.log.Warn("give a box back", "err", err)
	}
	l := &lazyBox{backend: a.box.backend, deadline: a.box.deadline, spec: a.otherSpec(separate)}
	box, err := l.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	return box, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.runner.o.Deadlines.Close)
		defer cancel()
		if err := l.close(ctx); err != nil {
			a.log.Warn("give a box back", "err", err)
		}
	}, nil
}

// otherSpec is that of the task's box, with the image of its verifier where it has one.
func (a *attempt) otherSpec(separate bool) backends.Spec {
	spec := a.box.spec
	if separate {
		spec.Image = cmp.Or(a.task.Verify.Image, a.runner.o.VerifyImage)
	}
	spec.Labels = maps.Clone(spec.Labels)
	spec.Labels["verify"] = a.mode()
	return spec
}

// giveBack closes the boxes of the sample, the tools in them first.
func (a *attempt) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.runner.o.Deadlines.Close)
	defer cancel()
	var errs []error
	if a.set != nil {
		errs = append(errs, a.set.Close(ctx))
		a.set = nil
	}
	return errors.Join(append(errs, a.box.close(ctx), a.other.close(ctx))...)
}

// imageRuns asks whether the image can run what we run first. Where it cannot, a box that
// broke at once was not broken by the model.
func (a *attempt) imageRuns(ctx context.Context) error {
	if a.box.backend == nil {
		return nil
	}
	if _, known := a.runner.o.Images.starts.Load(a.box.spec.Image); known {
		return nil
	}
	box, closing, err := a.another(ctx, false)
	if err != nil {
		return err
	}
	defer closing()
	return a.shellRuns(ctx, box)
}

// shellRuns runs our own first command in an unused box.
func (a *attempt) shellRuns(ctx context.Context, box backends.Sandbox) error {
	if _, known := a.runner.o.Images.starts.Load(a.box.spec.Image); known {
		return nil
	}
	r, err := box.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", "test -d /tmp && test -w /tmp"}, Timeout: time.Minute})
	if err != nil {
		return err
	}
	if r.Code != 0 {
		why := "it has no /tmp that can be written to"
		if r.Code > 1 {
			why = fmt.Sprintf("its sh does not run, exit code %d: %s", r.Code, strings.TrimSpace(string(r.Stderr)))
		}
		name := "of the back-end"
		if a.box.spec.Image != "" {
			name = a.box.spec.Image
		}
		return fmt.Errorf("%w: image %s: %s", backends.ErrImage, name, why)
	}
	a.runner.o.Images.starts.Store(a.box.spec.Image, true)
	return nil
}

// suspected adds the signs of a hack to a score and to the record.
func (a *attempt) suspected(s *trajectory.Score) *trajectory.Score {
	if len(a.hacks) == 0 {
		return s
	}
	s.Metrics = maps.Clone(s.Metrics)
	if s.Metrics == nil {
		s.Metrics = map[string]float64{}
	}
	s.Metrics[hackMetric] += float64(len(a.hacks))
	for _, h := range a.hacks {
		a.rec.Notes = append(a.rec.Notes, hackMetric+": "+h.Kind+": "+h.Text)
	}
	return s
}

// hackMetric counts signs of a hack.
const hackMetric = "reward/hack"

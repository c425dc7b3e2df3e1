package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"hermes/backends"
	"hermes/envs"
	"hermes/rollout/spool"
	"hermes/trajectory"
)

// Bounds of a workspace that is copied into another box.
const (
	workspaceSize = 1 << 30
	workspaceTime = 2 * time.Minute
)

// brokenError says that the model left its workspace in a state in which it cannot be taken
// over.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// moved is a new box with what the task starts with and the model's workspace in its place.
// The model's box is given back before the new one is asked for.
func (a *attempt) moved(ctx context.Context, box backends.Sandbox) (backends.Sandbox, error) {
	separate := a.mode() == envs.VerifySeparate
	if separate && cmp.Or(a.task.Verify.Image, a.runner.o.VerifyImage) == "" {
		return nil, &stageError{trajectory.Environment, "verify", errors.New("verify separate: neither the task nor --verify-image names the image to score in")}
	}
	if path.Clean("/"+a.task.Dir) == "/" && path.IsAbs(a.task.Dir) && a.task.Verify.Paths == nil {
		return nil, &stageError{trajectory.Environment, "verify", errors.New("verify " + a.mode() + ": the working folder is /: name the paths to copy")}
	}
	if len(a.rec.ToolStats) == 0 && !separate { // no tool has run in it
		return box, nil
	}
	if _, err := box.Exec(ctx, alone); err != nil {
		return nil, err
	}
	s := &spool.Spool{}
	defer s.Close()
	taken := a.take(ctx, box, s)
	if err := a.giveBack(ctx); err != nil {
		a.log.Warn("give a box back", "err", err)
	}
	if taken != nil && !asOurs(taken) && ctx.Err() == nil {
		return nil, a.whoBroke(ctx, taken)
	}
	if taken != nil {
		return nil, taken
	}
	a.other = lazyBox{backend: a.box.backend, deadline: a.box.deadline, spec: a.otherSpec(separate)}
	fresh, err := a.other.get(ctx)
	if err != nil {
		return nil, err
	}
	a.ofBox = new(envs.State)
	w := a.world(fresh)
	w.State = a.ofBox
	if err := a.fill(ctx, w); err != nil {
		return nil, err
	}
	if err := a.place(ctx, fresh, s); err != nil {
		return nil, &stageError{trajectory.Environment, "verify", err}
	}
	return fresh, nil
}

// asOurs tells whether an error says that the box is gone, whoever did that.
func asOurs(err error) bool {
	return errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrClosed) || errors.Is(err, backends.ErrBroken)
}

// whoBroke copies the same paths out of an unused box. If that works, the model is to blame.
func (a *attempt) whoBroke(ctx context.Context, why error) error {
	box, closing, err := a.another(ctx, false)
	if err != nil {
		return err
	}
	defer closing()
	w := a.world(box)
	w.State = new(envs.State)
	w.BoxState = w.State
	if err := a.fill(ctx, w); err != nil {
		return err
	}
	s := &spool.Spool{}
	defer s.Close()
	if err := a.take(ctx, box, s); err != nil {
		return &stageError{trajectory.Environment, "verify", fmt.Errorf("%w; of an untouched box neither: %w", why, err)}
	}
	return &brokenError{why}
}

// take copies the workspace out of a box.
func (a *attempt) take(ctx context.Context, box backends.Sandbox, s *spool.Spool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workspaceTime, fmt.Errorf("copying took longer than %v", workspaceTime))
	defer cancel()
	copier, ok := backends.As[backends.Copier](box)
	if !ok {
		return fmt.Errorf("verify %s: boxes of this back-end copy no folders: %w", a.mode(), backends.ErrUnavailable)
	}
	s.Left = workspaceSize
	for _, p := range a.paths() {
		if err := copies(ctx, box, p); err != nil {
			return fmt.Errorf("take over %s: %w", cmp.Or(p, "the working folder"), err)
		}
		s.Begin()
		err := copier.CopyOut(ctx, p, s)
		if errors.Is(err, fs.ErrNotExist) { // the model removed it: then it is empty
			s.Drop()
			err = nil
		}
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return fmt.Errorf("take over %s: %w", cmp.Or(p, "the working folder"), err)
		}
	}
	return nil
}

// copies refuses what is no folder, file or link: whoever copies a FIFO waits for a writer.
// What can't be looked at is left to the copy.
func copies(ctx context.Context, box backends.Sandbox, path string) error {
	files, ok := backends.As[backends.Stater](box)
	if !ok {
		return nil
	}
	st, err := files.Stat(ctx, path)
	if err != nil {
		return nil
	}
	if t := st.Mode.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
		return fmt.Errorf("%s: neither folder nor file", st.Mode)
	}
	return nil
}

func (a *attempt) paths() []string {
	if p := a.task.Verify.Paths; p != nil {
		return p
	}
	return []string{"."}
}

// place puts the workspace into a new box, instead of what is there.
func (a *attempt) place(ctx context.Context, box backends.Sandbox, s *spool.Spool) error {
	copier, ok := backends.As[backends.Copier](box)
	if !ok {
		return backends.ErrUnavailable
	}
	for i, p := range a.paths() {
		if err := a.clear(ctx, box, p); err != nil {
			return err
		}
		stream, err := s.Stream(i)
		if err != nil {
			return err
		}
		if stream == nil {
			continue
		}
		to := p
		if single, err := s.Single(i, p); err != nil {
			return err
		} else if single {
			to = path.Dir(p)
		}
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := spool.Sift(stream, w, a.task.Verify.Keep)
			w.CloseWithError(err)
			done <- err
		}()
		err = copier.CopyIn(ctx, to, r)
		r.CloseWithError(io.ErrClosedPipe)
		if serr := <-done; err == nil && serr != nil {
			err = serr
		}
		if err != nil {
			return fmt.Errorf("put the workspace into a new box: %w", err)
		}
	}
	return nil
}

// clear removes what the new box has at a path, but for what is to stay.
func (a *attempt) clear(ctx context.Context, box backends.Sandbox, p string) error {
	const script = `[ -e "$0" ] || [ -L "$0" ] || exit 0
if ! [ -d "$0" ]; then rm -f -- "$0"; exit; fi
cd -- "$0" || exit
for f in * .[!.]* ..?*; do
  [ -e "$f" ] || [ -L "$f" ] || continue
  keep=
  for k; do [ "$f" = "$k" ] && keep=1; done
  [ -n "$keep" ] || rm -rf -- "./$f" || exit
done`
	r, err := box.Exec(ctx, backends.Cmd{Argv: append([]string{"sh", "-c", script, p}, a.task.Verify.Keep...), Timeout: time.Minute})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", r.Code, envs.Brief(string(r.Stderr)))
	}
	if err != nil {
		return fmt.Errorf("make room for the workspace in a new box: %w", err)
	}
	return nil
}

package box

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
)

type sessionKey struct{}

// session is what the tools of one rollout share.
type session struct {
	scope *tool.Scope
	opt   Options
	procs *processes

	start sync.Mutex // held while the shell's state is made
	mu    sync.Mutex
	sh    *shellOf // nil before the first command
	acted bool     // the model has run or written something in the box
	files memory
	count int // for names
}

func open(s *tool.Scope, o Options) *session {
	return s.Shared(sessionKey{}, func() any {
		x := &session{scope: s, opt: o, files: newMemory()}
		x.procs = newProcesses(x)
		s.Cleanup(x.close)
		return x
	}).(*session)
}

func (x *session) close(ctx context.Context) error { return x.procs.close(ctx) }

func (x *session) box(ctx context.Context) (backends.Sandbox, error) {
	if x.scope.Box == nil {
		return nil, errors.New("this rollout has no box")
	}
	b, err := x.scope.Box(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the box: %w", err)
	}
	return b, nil
}

// name returns a prefix with 12 hexadecimal digits: the same in every run of the same sample.
func (x *session) name(prefix string) string {
	x.mu.Lock()
	x.count++
	n := x.count
	x.mu.Unlock()
	h := sha256.Sum256(fmt.Appendf(x.scope.Key[:], "%s%d", prefix, n))
	return prefix + hex.EncodeToString(h[:6])
}

func (x *session) now() time.Time {
	if x.scope.Now != nil {
		return x.scope.Now()
	}
	return time.Time{}
}

// ready starts the session's shell: it finds out what shell the box has and reads the
// start-up files. A box in which that fails cannot be used: its image is at fault, or the
// model, if it did something to the box before.
func (x *session) ready(ctx context.Context, b backends.Sandbox) error {
	x.start.Lock()
	defer x.start.Unlock()
	x.mu.Lock()
	started, acted := x.sh != nil, x.acted
	x.mu.Unlock()
	if started {
		return nil
	}
	c := backends.Cmd{Shell: startScript(), Kept: []byte{}, Timeout: 30 * time.Second}
	r, err := b.Exec(ctx, c)
	if err == nil && r.Code == 126 { // the box's directory may be gone
		c.Dir = "/"
		r, err = b.Exec(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("start the shell: %w", err)
	}
	sh, ok := readStart(r.Stdout, r.Kept)
	if !ok {
		return fmt.Errorf("start the shell: %s: %w", lacks(r), blame(acted))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sh = &sh
	return nil
}

// blame says whose fault it is that a first command of ours does not run in a box.
func blame(acted bool) error {
	if acted {
		return backends.ErrBroken
	}
	return backends.ErrImage
}

// lacks says what a box is missing in which the shell does not start.
func lacks(r backends.Result) string {
	said := strings.TrimSpace(edit.Clip(clean(r.Stderr), 200))
	switch {
	case r.TimedOut:
		return "it did not start within 30 seconds"
	case r.Code == 127 || r.Code == 126:
		return "the image has no shell that can be run, neither bash nor sh (" + said + ")"
	case r.Code == 0:
		return "the image has a shell that cannot write to " + keptFile + ": is /proc there?"
	}
	return fmt.Sprintf("exit code %d: %s", r.Code, said)
}

// path makes a path of the model absolute where the working directory of its commands is
// known; before the first command relative paths begin where the box begins.
func (x *session) path(ctx context.Context, b backends.Sandbox, p string) (string, error) {
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	tilde := p == "~" || strings.HasPrefix(p, "~/")
	if tilde {
		if err := x.ready(ctx, b); err != nil {
			return "", err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case tilde:
		return path.Join(x.sh.home, p[1:]), nil
	case x.sh == nil:
		return path.Clean(p), nil
	}
	return path.Join(x.sh.last.cwd, p), nil
}

// fileError reports whether an error is about the file and not about the box.
func fileError(err error) bool {
	if fatal(err) {
		return false
	}
	var pe *fs.PathError
	return errors.As(err, &pe) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, backends.ErrTooLarge)
}

// reason is the innermost sentence of a file error.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// quote makes one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fatal reports whether an error says that the box failed or the caller gave up.
func fatal(err error) bool {
	for _, e := range []error{backends.ErrLost, backends.ErrBroken, backends.ErrClosed, backends.ErrImage, backends.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

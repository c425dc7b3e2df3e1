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
)

type sessionKey struct{}

// session is what the tools of one rollout share.
type session struct {
	scope *tool.Scope
	opt   Options
	procs *processes

	start sync.Mutex // held while the shell's state is made
	mu    sync.Mutex
	dir   string // state of the shell in the box; empty before the first command
	home  string
	cwd   string // as last known
	stale bool   // a command may have changed the directory since
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

// Forget makes the tools forget which files the model has seen, as must be done when
// older messages leave its context.
func Forget(s *tool.Scope) {
	x := open(s, Options{}.withDefaults())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files = newMemory()
}

func (x *session) close(ctx context.Context) error {
	err := x.procs.close(ctx)
	x.mu.Lock()
	dir := x.dir
	x.mu.Unlock()
	if dir != "" {
		if box, e := x.scope.Box(ctx); e == nil { // a closed or lost box has nothing left to tidy
			_, _ = box.Exec(ctx, backends.Cmd{Argv: []string{"rm", "-rf", "--", dir}, Timeout: 10 * time.Second})
		}
	}
	return err
}

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

// ready makes the state of the shell: a folder for it, the environment after the start-up
// files.
func (x *session) ready(ctx context.Context, b backends.Sandbox) error {
	x.start.Lock()
	defer x.start.Unlock()
	x.mu.Lock()
	dir := x.dir
	x.mu.Unlock()
	if dir != "" {
		return nil
	}
	r, err := b.Exec(ctx, backends.Cmd{Shell: text("start.sh"), Timeout: 30 * time.Second})
	if err != nil {
		return fmt.Errorf("start the shell: %w", err)
	}
	lines := strings.Split(string(r.Stdout), "\n")
	if r.Code != 0 || len(lines) < 3 || !path.IsAbs(lines[0]) {
		return fmt.Errorf("start the shell: exit code %d: %s%s: %w", r.Code, clip(string(r.Stdout), 200), clip(string(r.Stderr), 200), backends.ErrBroken)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dir, x.home, x.cwd = lines[0], lines[1], lines[2]
	return nil
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
	dir, home, cwd, stale := x.dir, x.home, x.cwd, x.stale
	x.mu.Unlock()
	switch {
	case tilde:
		return path.Join(home, p[1:]), nil
	case dir == "":
		return path.Clean(p), nil
	}
	if stale {
		raw, err := b.ReadFile(ctx, dir+"/cwd", 8192)
		switch {
		case err == nil && path.IsAbs(string(raw)):
			cwd = strings.TrimSuffix(string(raw), "\n")
		case err != nil && !fileError(err):
			return "", err
		}
		x.mu.Lock()
		x.cwd, x.stale = cwd, false
		x.mu.Unlock()
	}
	return path.Join(cwd, p), nil
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

func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// fatal reports whether an error says that the box failed or the caller gave up.
func fatal(err error) bool {
	for _, e := range []error{backends.ErrLost, backends.ErrBroken, backends.ErrClosed, backends.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

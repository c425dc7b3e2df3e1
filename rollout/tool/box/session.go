package box

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/shell"
)

type sessionKey struct{}

// session is what the tools of one rollout share.
type session struct {
	scope *tool.Scope
	opt   Options
	sh    shell.Session
	procs *shell.Processes

	mu    sync.Mutex
	files memory
	count int // for names
}

func open(s *tool.Scope, o Options) *session {
	return s.Shared(sessionKey{}, func() any {
		x := &session{scope: s, opt: o, files: newMemory()}
		x.procs = shell.NewProcesses(x.now)
		s.Cleanup(x.procs.Close)
		return x
	}).(*session)
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

// fatal reports whether an error says that the box failed or the caller gave up.
func fatal(err error) bool {
	for _, e := range []error{backends.ErrLost, backends.ErrBroken, backends.ErrClosed, backends.ErrImage, backends.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Package shell runs the commands of a rollout as if one shell stayed open in its box: what a
// command leaves behind (directory, variables, aliases, functions) the next one finds
// ([Session]). Commands in the background are kept in a table ([Processes]).
//
// The shell is a new one for each command. What stays between two commands
// travels through one file without a name, backends.Cmd.Kept: before the command it holds
// the text that makes the shell what the last one was, after it what the shell wrote down at
// its end. Nothing but the shell itself runs for that, the box's files and the shell's PATH,
// functions and aliases have no part in it, and a state that is not complete, as one of a
// shell that was killed while it wrote, is not taken.
//
// bash reads the text because BASH_ENV names it, and has the model's command and nothing
// else as its command line. Other shells have it read by a dot command.
//
// Sessions and tables are safe for concurrent use.
package shell

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/rollout/tool/box/edit"
)

// Session is the shell of one rollout. The zero value starts it with the first command.
type Session struct {
	start sync.Mutex // held while the state is made
	mu    sync.Mutex
	sh    *facts // nil before the first command
	acted bool   // the model has run or written something in the box
}

// Acted notes that the model did something in the box without this session.
func (s *Session) Acted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acted = true
}

// Blame is the error for a command of ours that does not run in the box: the image's fault, or
// the model's where it did something before.
func (s *Session) Blame() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acted {
		return backends.ErrBroken
	}
	return backends.ErrImage
}

// Dir is the directory in which the next command begins; false before the first.
func (s *Session) Dir() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sh == nil {
		return "", false
	}
	return s.sh.last.cwd, true
}

// Command makes a command of the session that leaves no state. It begins in workdir, or else
// where the last command ended.
func (s *Session) Command(ctx context.Context, b backends.Sandbox, command, workdir string) (backends.Cmd, error) {
	return s.command(ctx, b, command, workdir, false)
}

// command makes a command of the session, which it starts where that has not been done.
func (s *Session) command(ctx context.Context, b backends.Sandbox, command, workdir string, leave bool) (backends.Cmd, error) {
	if err := s.ready(ctx, b); err != nil {
		return backends.Cmd{}, err
	}
	s.mu.Lock()
	sh := *s.sh
	s.acted = true
	s.mu.Unlock()
	return sh.command(command, workdir, leave), nil
}

// Run runs a command in the foreground, with its standard error among its output. A workdir is
// for this command only.
func (s *Session) Run(ctx context.Context, b backends.Sandbox, command, workdir string, timeout time.Duration) (backends.Result, error) {
	c, err := s.command(ctx, b, command, workdir, true)
	if err != nil {
		return backends.Result{}, err
	}
	c.Timeout = timeout
	c.Merge = true
	c.MaxOutput = 512 << 10
	c.Keep = backends.KeepBoth
	r, err := b.Exec(ctx, c)
	if err != nil {
		return r, err
	}
	if left, ok := readState(r.Kept); ok {
		s.mu.Lock()
		if workdir != "" {
			left.cwd, left.old = s.sh.last.cwd, s.sh.last.old
		}
		s.sh.last = left
		s.mu.Unlock()
	}
	return r, nil
}

// ready starts the session's shell: it finds out what shell the box has and reads the
// start-up files. A box in which that fails cannot be used: its image is at fault, or the
// model, if it did something to the box before.
func (s *Session) ready(ctx context.Context, b backends.Sandbox) error {
	s.start.Lock()
	defer s.start.Unlock()
	s.mu.Lock()
	started := s.sh != nil
	s.mu.Unlock()
	if started {
		return nil
	}
	fault := s.Blame()
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
		return fmt.Errorf("start the shell: %s: %w", lacks(r), fault)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sh = &sh
	return nil
}

// lacks says what a box is missing in which the shell does not start.
func lacks(r backends.Result) string {
	said := strings.TrimSpace(edit.Clip(Clean(r.Stderr), 200))
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

// Path makes a path of the model absolute where the working directory of its commands is
// known; before the first command relative paths begin where the box begins.
func (s *Session) Path(ctx context.Context, b backends.Sandbox, p string) (string, error) {
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	tilde := p == "~" || strings.HasPrefix(p, "~/")
	if tilde {
		if err := s.ready(ctx, b); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case tilde:
		return path.Join(s.sh.home, p[1:]), nil
	case s.sh == nil:
		return path.Clean(p), nil
	}
	return path.Join(s.sh.last.cwd, p), nil
}

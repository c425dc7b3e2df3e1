package remote

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermes/backends"
	"hermes/envs"
)

// scene is what the program may use while it works on one request.
type scene struct {
	world envs.World
	box   func(context.Context) (backends.Sandbox, error) // nil: world.Box alone

	mu    sync.Mutex // one callback at a time: an environment's World is one rollout's
	infra error      // the first failure that is not the program's
}

type nestedKey struct{}

// isNested says that a request is made while another one waits for it.
func isNested(ctx context.Context) bool { return ctx.Value(nestedKey{}) != nil }

// blame puts the failure of a callback in front of the error that the program made of it,
// so that a lost box is not taken for a bad scorer. A program that answers without a word
// of the loss is not believed.
func (s *scene) blame(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.infra == nil || err == nil && !errors.Is(s.infra, backends.ErrLost):
		return err
	case err == nil:
		return s.infra
	}
	return fmt.Errorf("%w; %w", s.infra, err)
}

// serve answers a callback.
func (s *scene) serve(ctx context.Context, m packet) packet {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := packet{ID: m.ID}
	out, err := s.do(context.WithValue(ctx, nestedKey{}, true), m)
	if err == nil {
		back.Result, err = json.Marshal(out)
	}
	var unknown *fault
	switch {
	case errors.As(err, &unknown):
		back.Error = unknown
	case err != nil:
		if s.infra == nil && !errors.As(err, new(*asked)) && ctx.Err() == nil {
			s.infra = err
		}
		back.Error = &fault{Code: codeCallback, Message: fmt.Sprintf("%s: %v", m.Method, err)}
	}
	return back
}

// asked is the error of a callback that the program got wrong.
type asked struct{ error }

func (e *asked) Unwrap() error { return e.error }

func wrong(format string, args ...any) error { return &asked{fmt.Errorf(format, args...)} }

func (f *fault) Error() string { return f.Message }

func (s *scene) do(ctx context.Context, m packet) (any, error) {
	switch m.Method {
	case "box/exec":
		return serving(ctx, m, s.exec)
	case "box/read":
		return serving(ctx, m, s.readFile)
	case "box/write":
		return serving(ctx, m, s.writeFile)
	case "tool/call":
		return serving(ctx, m, s.tool)
	case "judge/ask":
		return serving(ctx, m, s.judge)
	}
	return nil, &fault{Code: codeMethod, Message: fmt.Sprintf("no method %q (have box/exec, box/read, box/write, tool/call, judge/ask)", clip(m.Method, 60))}
}

func serving[P any](ctx context.Context, m packet, f func(context.Context, P) (any, error)) (any, error) {
	var p P
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, wrong("params: %w", err)
	}
	return f(ctx, p)
}

// opened returns the box.
func (s *scene) opened(ctx context.Context) (backends.Sandbox, error) {
	if s.world.Box != nil {
		return s.world.Box, nil
	}
	if s.box == nil {
		return nil, &asked{envs.ErrNoBox}
	}
	return s.box(ctx)
}

type execParams struct {
	Argv    []string          `json:"argv"`
	Shell   string            `json:"shell"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"`
	Stdin   *string           `json:"stdin"`
	Timeout float64           `json:"timeout"` // seconds
}

func (s *scene) exec(ctx context.Context, p execParams) (any, error) {
	if (len(p.Argv) == 0) == (p.Shell == "") || p.Timeout < 0 || p.Timeout > 86400 {
		return nil, wrong("argv %q, shell %q, timeout %v: want one of argv and shell, and at most a day", p.Argv, clip(p.Shell, 60), p.Timeout)
	}
	box, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	c := backends.Cmd{Argv: p.Argv, Shell: p.Shell, Dir: p.Dir, Env: p.Env, Timeout: time.Duration(p.Timeout * float64(time.Second)), Keep: backends.KeepBoth}
	if p.Stdin != nil {
		c.Stdin = []byte(*p.Stdin)
	}
	w := s.world
	w.Box = box
	res, err := w.Exec(ctx, "environment", c)
	if err != nil {
		return nil, err
	}
	return map[string]any{"code": res.Code, "stdout": strings.ToValidUTF8(string(res.Stdout), "�"), "stderr": strings.ToValidUTF8(string(res.Stderr), "�"),
		"timed_out": res.TimedOut, "truncated": res.Truncated}, nil
}

type fileParams struct {
	Path   string  `json:"path"`
	Limit  int64   `json:"limit"`
	Text   *string `json:"text"`
	Base64 *string `json:"base64"`
	Mode   uint32  `json:"mode"`
}

// maxFile is what box/read returns at most of a file, in bytes.
const maxFile = 8 << 20

func (s *scene) readFile(ctx context.Context, p fileParams) (any, error) {
	if p.Path == "" || p.Limit < 0 || p.Limit > maxFile {
		return nil, wrong("path %q, limit %d: want a path and a limit of at most %d bytes", p.Path, p.Limit, maxFile)
	}
	p.Limit = cmp.Or(p.Limit, 1<<20)
	box, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	b, err := box.ReadFile(ctx, p.Path, p.Limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return map[string]any{"missing": true}, nil
	case err != nil:
		return nil, err
	case utf8.Valid(b):
		return map[string]any{"text": string(b)}, nil
	}
	return map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}, nil
}

func (s *scene) writeFile(ctx context.Context, p fileParams) (any, error) {
	if p.Path == "" || (p.Text == nil) == (p.Base64 == nil) || p.Mode > 0o777 {
		return nil, wrong("path %q, mode %o: want a path, one of text and base64, and a mode of at most 0777", p.Path, p.Mode)
	}
	var data []byte
	if p.Text != nil {
		data = []byte(*p.Text)
	} else {
		var err error
		data, err = base64.StdEncoding.DecodeString(*p.Base64)
		if err != nil {
			return nil, wrong("base64: %w", err)
		}
	}
	p.Mode = cmp.Or(p.Mode, 0o644)
	box, err := s.opened(ctx)
	if err != nil {
		return nil, err
	}
	return struct{}{}, box.WriteFile(ctx, p.Path, data, fs.FileMode(p.Mode))
}

type toolParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (s *scene) tool(ctx context.Context, p toolParams) (any, error) {
	if s.world.Tools == nil {
		return nil, wrong("there are no tools at this point")
	}
	text, err := s.world.Tools.Call(ctx, p.Name, p.Arguments)
	if err != nil {
		return nil, err
	}
	return map[string]string{"text": text}, nil
}

type judgeParams struct {
	Prompt string          `json:"prompt"`
	Schema json.RawMessage `json:"schema"`
}

func (s *scene) judge(ctx context.Context, p judgeParams) (any, error) {
	if s.world.Judge == nil {
		return nil, wrong("the run has no judge; give --model-role judge=MODEL[@URL]")
	}
	out, err := s.world.Judge.Ask(ctx, p.Prompt, p.Schema)
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{"answer": out}, nil
}

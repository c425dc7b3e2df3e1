package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"hermes/backends"
	"hermes/internal/late"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
)

const writeParameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "The file: absolute, relative to the working directory, or ~/…"},
    "content": {"type": "string", "description": "The whole new content."}
  },
  "required": ["path", "content"],
  "additionalProperties": false
}`

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type writeResult struct {
	Bytes   int    `json:"bytes_written"`
	Dirs    bool   `json:"dirs_created"`
	Lint    *lint  `json:"lint,omitempty"`
	Warning string `json:"_warning,omitempty"`
}

func writeFile(o Options) tool.Def {
	return tool.Def{
		Spec: spec("write_file", writeParameters), Toolset: "file",
		Traits: tool.Traits{Parallel: true, Paths: pathsOf, FromCode: true, NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.write), nil
		},
	}
}

func (x *session) write(ctx context.Context, a writeArgs) (tool.Result, error) {
	if strings.TrimSpace(a.Path) == "" || strings.ContainsRune(a.Path, 0) {
		return tool.Errorf("path %q is not a file name", a.Path), nil
	}
	if strings.Contains(a.Content, `"status":"unchanged"`) && strings.Contains(a.Content, `"content_returned":false`) {
		return tool.Errorf("content is the note that read_file gives for an unchanged file, not a file's content"), nil
	}
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	f, fault, err := x.load(ctx, b, a.Path)
	if err != nil || fault != "" {
		return failure(fault), err
	}
	if f.exists && edit.LosesBytes(f.text, a.Content) {
		return tool.Errorf("%s is not UTF-8, and content holds U+FFFD, which read_file shows for bytes that are not: they would be lost. Use patch, which keeps every byte that it does not name, or convert the file first (iconv in the terminal)", f.path), nil
	}
	content := a.Content
	if f.exists {
		content = edit.LineEnds(f.text, content)
	}
	res := writeResult{Bytes: len(content)}
	if !f.exists {
		res.Dirs, err = missingDir(ctx, b, path.Dir(f.path))
		if err != nil {
			return tool.Result{}, err
		}
	}
	if ok, err := x.approved(ctx, kindChanges, "write_file:\n%s", changed(f, content)); err != nil || !ok {
		return failure(notAllowed("the change of " + f.path)), err
	}
	if fault, err := x.store(ctx, b, f, content); err != nil || fault != "" {
		return failure(fault), err
	}
	if x.wrote(f.path, []byte(f.text), []byte(content), f.exists) {
		res.Warning = "The file had changed since you last read it: something else edited it. What it wrote is gone now."
	}
	res.Lint, err = x.lint(ctx, b, f.path, f.text, content)
	return tool.Result{Text: tool.JSON(res)}, err
}

func failure(fault string) tool.Result {
	if fault == "" {
		return tool.Result{}
	}
	return tool.Errorf("%s", fault)
}

// file is a file before it is changed.
type file struct {
	path   string
	text   string
	exists bool
}

// load reads a file that is going to be changed; a missing one is no fault.
func (x *session) load(ctx context.Context, b backends.Sandbox, p string) (f file, fault string, err error) {
	f.path, err = x.sh.Path(ctx, b, p)
	if err != nil {
		return f, "", err
	}
	if why, err := x.protected(ctx, b, f.path); err != nil || why != "" {
		return f, why, err
	}
	if ok, err := x.mayRead(ctx, b, "look at a file before it is changed", f.path); err != nil || !ok {
		return f, notAllowed("the change of " + f.path), err
	}
	data, err := b.ReadFile(ctx, f.path, readAtMost)
	switch {
	case err == nil:
		f.text, f.exists = string(data), true
	case !fileError(err):
		return f, "", fmt.Errorf("read %s: %w", f.path, err)
	case !errors.Is(err, fs.ErrNotExist):
		return f, fmt.Sprintf("Cannot write %s: %s", f.path, reason(err)), nil
	}
	return f, "", nil
}

// store writes a file and reads it back.
func (x *session) store(ctx context.Context, b backends.Sandbox, f file, content string) (fault string, err error) {
	x.sh.Acted()
	if err := b.WriteFile(ctx, f.path, []byte(content), perm(f)); err != nil {
		if !fileError(err) {
			return "", fmt.Errorf("write %s: %w", f.path, err)
		}
		return fmt.Sprintf("Cannot write %s: %s", f.path, reason(err)), nil
	}
	back, err := b.ReadFile(ctx, f.path, int64(len(content))+1)
	switch {
	case err != nil && !fileError(err):
		return "", fmt.Errorf("read %s back: %w", f.path, err)
	case err != nil || string(back) != content:
		return fmt.Sprintf("%s was written, but its content is another when read back", f.path), nil
	}
	return "", nil
}

func perm(f file) fs.FileMode {
	if f.exists {
		return 0
	}
	return 0o644
}

func missingDir(ctx context.Context, b backends.Sandbox, dir string) (bool, error) {
	s, ok := backends.As[backends.Stater](b)
	if !ok {
		return false, nil
	}
	_, err := s.Stat(ctx, dir)
	if err != nil && !fileError(err) {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	return errors.Is(err, fs.ErrNotExist), nil
}

var guarded = late.Regexp(`^(?:/private)?/(?:etc|boot)(?:/|$)|^/(?:usr/)?lib/systemd/|^/(?:var/)?run/docker\.sock$|` +
	`/\.(?:ssh|aws|gnupg|kube|docker|azure)(?:/|$)|/\.config/(?:gh|gcloud|systemd)(?:/|$)|/\.(?:bashrc|bash_profile|bash_login|profile|zshrc|zprofile|zshenv|netrc|pgpass|npmrc|pypirc)$|/\.hermes/\.env$`)

// protected says why a file must not be written where the box shares the host's files. In
// an isolated box everything is the model's own.
func (x *session) protected(ctx context.Context, b backends.Sandbox, p string) (string, error) {
	if x.scope.Isolated {
		return "", nil
	}
	r, err := b.Exec(ctx, backends.Cmd{Dir: dirFor(p), Argv: []string{"readlink", "-m", "--", p}, MaxOutput: 16 << 10})
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", p, err)
	}
	for _, name := range []string{p, strings.TrimSuffix(string(r.Stdout), "\n")} {
		if guarded.MatchString(name) {
			return fmt.Sprintf("Write denied: %s is a protected system or credential file", p), nil
		}
	}
	return "", nil
}

package box

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"hermes/backends"
	"hermes/rollout/diff"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
	"hermes/rollout/tool/box/shell"
)

const patchParameters = `{
  "type": "object",
  "properties": {
    "mode": {"type": "string", "enum": ["replace", "patch"], "default": "replace", "description": "replace one text in one file, or apply a patch."},
    "path": {"type": "string", "description": "replace: the file."},
    "old_string": {"type": "string", "description": "replace: the text to find; unique unless replace_all is true."},
    "new_string": {"type": "string", "description": "replace: what takes its place; empty to delete."},
    "replace_all": {"type": "boolean", "default": false, "description": "replace: all places, not one."},
    "patch": {"type": "string", "description": "patch: the text from *** Begin Patch to *** End Patch."}
  },
  "required": ["mode"],
  "additionalProperties": false
}`

type patchArgs struct {
	Mode  string  `json:"mode"`
	Path  string  `json:"path"`
	Old   *string `json:"old_string"`
	New   *string `json:"new_string"`
	All   bool    `json:"replace_all"`
	Patch string  `json:"patch"`
}

type patchResult struct {
	Success  bool     `json:"success"`
	Diff     string   `json:"diff,omitempty"`
	Modified []string `json:"files_modified,omitempty"`
	Created  []string `json:"files_created,omitempty"`
	Deleted  []string `json:"files_deleted,omitempty"`
	Lint     any      `json:"lint,omitempty"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"_hint,omitempty"`
	Warning  string   `json:"_warning,omitempty"`
}

func patch(o Options) tool.Def {
	return tool.Def{
		Spec: spec("patch", patchParameters), Toolset: "file",
		Traits: tool.Traits{Parallel: true, Paths: patchPaths, FromCode: true, NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.patch), nil
		},
	}
}

func patchPaths(args json.RawMessage) []string {
	var a patchArgs
	if json.Unmarshal(args, &a) != nil {
		return nil
	}
	if a.Mode != "patch" {
		return pathsOf(args)
	}
	sections, err := edit.Parse(a.Patch)
	if err != nil {
		return nil
	}
	var paths []string
	for _, s := range sections {
		paths = append(paths, s.Path)
		if s.To != "" {
			paths = append(paths, s.To)
		}
	}
	return paths
}

func patchFault(format string, args ...any) tool.Result {
	return tool.Result{Text: tool.JSON(patchResult{Error: fmt.Sprintf(format, args...)}), Failed: true}
}

func (x *session) patch(ctx context.Context, a patchArgs) (tool.Result, error) {
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	if a.Mode == "patch" {
		if a.Patch == "" {
			return patchFault("patch is required in mode patch"), nil
		}
		return x.applyPatch(ctx, b, a.Patch)
	}
	switch {
	case a.Path == "":
		return patchFault("path is required in mode replace"), nil
	case a.Old == nil || a.New == nil:
		return patchFault("old_string and new_string are required in mode replace"), nil
	}
	f, fault, err := x.load(ctx, b, a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	if fault == "" && !f.exists {
		return x.unreadable(ctx, b, f.path, fs.ErrNotExist)
	}
	if fault != "" {
		return patchFault("%s", fault), nil
	}
	after, strategy, err := edit.Replace(f.text, *a.Old, *a.New, a.All)
	if err != nil {
		return patchFault("%s: %v", f.path, err), nil
	}
	if after == f.text {
		return patchFault("%s: the change would leave the file as it is", f.path), nil
	}
	if ok, err := x.approved(ctx, kindChanges, "patch:\n%s", changed(f, after)); err != nil || !ok {
		return patchFault("%s", notAllowed("the change of "+f.path)), err
	}
	w := writing{x: x, b: b}
	if fault, err := w.change(ctx, f, after); err != nil || fault != "" {
		return patchFault("%s", fault), err
	}
	if strategy != "exact" {
		w.res.Hint = "old_string did not match exactly; it was found with: " + strategy + ". Check the diff."
	}
	return w.result(ctx)
}

// writing collects what a patch does.
type writing struct {
	x     *session
	b     backends.Sandbox
	res   patchResult
	lints []lintOf
}

type lintOf struct{ path, before, after string }

func (w *writing) change(ctx context.Context, f file, after string) (string, error) {
	if fault, err := w.x.store(ctx, w.b, f, after); err != nil || fault != "" {
		return fault, err
	}
	if w.x.wrote(f.path, []byte(f.text), []byte(after), f.exists) {
		w.res.Warning = "The file had changed since you last read it: something else edited it too."
	}
	name := f.path
	if f.exists {
		w.res.Modified = append(w.res.Modified, f.path)
	} else {
		name = ""
		w.res.Created = append(w.res.Created, f.path)
	}
	w.res.Diff += diff.Unified(name, f.path, f.text, after)
	w.lints = append(w.lints, lintOf{f.path, f.text, after})
	return "", nil
}

func (w *writing) result(ctx context.Context) (tool.Result, error) {
	all := map[string]*lint{}
	for _, l := range w.lints {
		found, err := w.x.lint(ctx, w.b, l.path, l.before, l.after)
		if err != nil {
			return tool.Result{}, err
		}
		if found != nil {
			all[l.path] = found
		}
	}
	switch {
	case len(w.lints) == 1 && len(all) == 1:
		w.res.Lint = all[w.lints[0].path]
	case len(all) > 0:
		w.res.Lint = all
	}
	w.res.Success = true
	return tool.Result{Text: tool.JSON(w.res)}, nil
}

// step is one file of a patch with its content before and after.
type step struct {
	s     edit.Section
	f     file
	to    file // move
	after string
}

// applyPatch checks everything first and writes only then.
func (x *session) applyPatch(ctx context.Context, b backends.Sandbox, text string) (tool.Result, error) {
	sections, err := edit.Parse(text)
	if err != nil {
		return patchFault("%v", err), nil
	}
	var steps []step
	var seen []string
	for _, s := range sections {
		st, fault, err := x.prepare(ctx, b, s)
		if err != nil {
			return tool.Result{}, err
		}
		if fault == "" && (slices.Contains(seen, st.f.path) || s.To != "" && slices.Contains(seen, st.to.path)) {
			fault = "the patch names the file in more than one section"
		}
		if fault != "" {
			return patchFault("%s: %s (nothing was changed)", s.Path, fault), nil
		}
		seen = append(seen, st.f.path)
		if s.To != "" {
			seen = append(seen, st.to.path)
		}
		steps = append(steps, st)
	}
	if ok, err := x.approved(ctx, kindChanges, "patch:\n%s", changes(steps)); err != nil || !ok {
		return patchFault("%s", notAllowed("the patch")), err
	}
	w := writing{x: x, b: b}
	for _, st := range steps {
		if fault, err := w.step(ctx, st); err != nil {
			return tool.Result{}, err
		} else if fault != "" {
			w.res.Error = fault
			return tool.Result{Text: tool.JSON(w.res), Failed: true}, nil
		}
	}
	return w.result(ctx)
}

// prepare reads the file of a section and works out its new content.
func (x *session) prepare(ctx context.Context, b backends.Sandbox, s edit.Section) (st step, fault string, err error) {
	st.s = s
	st.f, fault, err = x.load(ctx, b, s.Path)
	if err != nil || fault != "" {
		return st, fault, err
	}
	switch {
	case s.Op == edit.Add && st.f.exists:
		return st, "the file exists already; use *** Update File or *** Delete File", nil
	case s.Op == edit.Add:
		st.after = s.Text
		return st, "", nil
	case !st.f.exists:
		return st, "the file does not exist", nil
	case s.Op == edit.Delete:
		return st, "", nil
	}
	st.after, err = s.Apply(st.f.text)
	if err != nil {
		return st, err.Error(), nil
	}
	if s.Op == edit.Move {
		st.to, fault, err = x.load(ctx, b, s.To)
		if err != nil || fault != "" {
			return st, fault, err
		}
		if st.to.exists {
			return st, fmt.Sprintf("the target %s exists already", s.To), nil
		}
	}
	return st, "", nil
}

func (w *writing) step(ctx context.Context, st step) (string, error) {
	switch st.s.Op {
	case edit.Delete:
		if fault, err := w.remove(ctx, st.f); err != nil || fault != "" {
			return fault, err
		}
		w.res.Deleted = append(w.res.Deleted, st.f.path)
		w.res.Diff += diff.Unified(st.f.path, "", st.f.text, "")
		return "", nil
	case edit.Move:
		return w.move(ctx, st)
	}
	return w.change(ctx, st.f, st.after)
}

// move keeps the file's mode: it is renamed first, then changed.
func (w *writing) move(ctx context.Context, st step) (string, error) {
	r, err := w.b.Exec(ctx, backends.Cmd{Dir: dirFor(st.f.path, st.to.path), Shell: fmt.Sprintf("d=%s; mkdir -p -- \"${d%%/*}\" && mv -- %s \"$d\"", shell.Quote(absolute(st.to.path)), shell.Quote(absolute(st.f.path)))})
	if err != nil {
		return "", fmt.Errorf("move %s: %w", st.f.path, err)
	}
	if r.Code != 0 {
		return fmt.Sprintf("Cannot move %s: %s", st.f.path, edit.Clip(shell.Clean(r.Stderr), 300)), nil
	}
	if st.after != st.f.text {
		target := file{path: st.to.path, text: st.f.text, exists: true}
		if fault, err := w.x.store(ctx, w.b, target, st.after); err != nil || fault != "" {
			return fault, err
		}
	}
	w.x.wrote(st.to.path, nil, []byte(st.after), false)
	w.res.Created = append(w.res.Created, st.to.path)
	w.res.Deleted = append(w.res.Deleted, st.f.path)
	w.res.Diff += diff.Unified(st.f.path, st.to.path, st.f.text, st.after)
	if st.after == st.f.text {
		w.res.Diff += fmt.Sprintf("rename from %s\nrename to %s\n", st.f.path, st.to.path)
	}
	w.lints = append(w.lints, lintOf{st.to.path, st.f.text, st.after})
	return "", nil
}

func (w *writing) remove(ctx context.Context, f file) (string, error) {
	r, err := w.b.Exec(ctx, backends.Cmd{Dir: dirFor(f.path), Argv: []string{"rm", "--", f.path}})
	if err != nil {
		return "", fmt.Errorf("delete %s: %w", f.path, err)
	}
	if r.Code != 0 {
		return fmt.Sprintf("Cannot delete %s: %s", f.path, edit.Clip(shell.Clean(r.Stderr), 300)), nil
	}
	return "", nil
}

// dirFor is where a command about files runs: the box's own directory may be gone, and is
// needed for relative paths alone.
func dirFor(paths ...string) string {
	for _, p := range paths {
		if !path.IsAbs(p) {
			return ""
		}
	}
	return "/"
}

// absolute keeps a relative path from being read as an option and gives it a folder.
func absolute(p string) string {
	if p[0] == '/' {
		return p
	}
	return "./" + p
}

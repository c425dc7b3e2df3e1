package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hermes/backends"
	"hermes/rollout/diff"
)

// workspace is the working directory of a box after a rollout.
type workspace struct {
	Scene
	o Options
}

// slack is how much older than the box a file of the rollout may look: file systems take
// their time from a clock that goes in steps.
const slack = time.Second

// diff compares the working directory with the files that the task put there. Where the
// box came with files of an image, those that were written during the rollout are named:
// what they were before is not known.
func (w workspace) diff(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	var errs []error
	home, err := w.home(ctx)
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(w.Task.Files)) {
		given[relative(home, name)] = true
		errs = append(errs, w.one(ctx, &out, name, name, w.Task.Files[name]))
	}
	search, ok := backends.As[backends.Searcher](w.Box)
	if !ok {
		fmt.Fprintln(&out, "# this box cannot list its files: new ones are not shown")
		return out.Bytes(), errors.Join(errs...)
	}
	found, err := search.Search(ctx, backends.Query{Root: ".", Pattern: "*", Hidden: true, Limit: w.o.MaxFiles})
	if err != nil {
		return out.Bytes(), errors.Join(append(errs, err)...)
	}
	slices.SortFunc(found.Matches, func(a, b backends.Match) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range found.Matches {
		switch {
		case given[relative(home, m.Path)]:
		case !w.Images:
			errs = append(errs, w.one(ctx, &out, "", m.Path, ""))
		case !m.MTime.Before(w.Since.Add(-slack)):
			fmt.Fprintf(&out, "# %s: %d bytes, written during the rollout; what the image held is not known\n", m.Path, m.Size)
		}
	}
	if more := found.Total - len(found.Matches); more > 0 || found.More {
		fmt.Fprintf(&out, "# the directory holds at least %d files more, which are not compared\n", more)
	}
	if why := missed(found.Skipped); why != "" {
		fmt.Fprintf(&out, "# not compared: %s\n", why)
		errs = append(errs, fmt.Errorf("workspace.diff: not compared: %s", why))
	}
	return out.Bytes(), errors.Join(errs...)
}

// missed says what a search could not look at, or "". Links and what a .gitignore names are left
// out by intention.
func missed(s backends.Skipped) string {
	parts, all := backends.Skipped{Special: s.Special, Deep: s.Deep, Unreadable: s.Unreadable}.Counts()
	if all > 0 && len(s.Names) > 0 {
		parts[len(parts)-1] += fmt.Sprintf(" (in all was left out: %s)", strings.Join(s.Names, ", "))
	}
	for _, b := range s.Bounds {
		parts = append(parts, "what is beyond "+b)
	}
	return strings.Join(parts, ", ")
}

// one adds the difference of one file. An empty oldName: the file is new.
func (w workspace) one(ctx context.Context, out *bytes.Buffer, oldName, name, before string) error {
	now, err := w.Box.ReadFile(ctx, name, w.o.MaxFile)
	newName := name
	switch {
	case errors.Is(err, fs.ErrNotExist):
		newName = ""
	case errors.Is(err, backends.ErrTooLarge):
		fmt.Fprintf(out, "# %s: larger than %d bytes, not shown\n", name, w.o.MaxFile)
		return nil
	case err != nil:
		fmt.Fprintf(out, "# %s: cannot be read: %v\n", name, reason(err))
		return fmt.Errorf("read %s: %w", name, err)
	}
	if newName != "" && oldName != "" && string(now) == before {
		return nil
	}
	if diff.Binary(now) || diff.Binary([]byte(before)) {
		fmt.Fprintf(out, "# binary file %s: %d bytes, was %d\n", name, len(now), len(before))
		return nil
	}
	text := diff.Unified(oldName, newName, before, string(now))
	if text == "" { // an empty file that came or went
		text = fmt.Sprintf("# empty file %s: %s\n", name, map[bool]string{true: "removed", false: "new"}[newName == ""])
	}
	if int64(out.Len()+len(text)) > w.o.MaxTotal {
		fmt.Fprintf(out, "# %s: differs; not shown, the diff would be larger than %d bytes\n", name, w.o.MaxTotal)
		return nil
	}
	out.WriteString(text)
	return nil
}

// reason is an error without its path, which the message already names.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// home is the working directory; it is asked for only where a path of the task is absolute.
func (w workspace) home(ctx context.Context) (string, error) {
	absolute := path.IsAbs
	if !slices.ContainsFunc(slices.Collect(maps.Keys(w.Task.Files)), absolute) {
		return "", nil
	}
	res, err := w.Box.Exec(ctx, backends.Cmd{Shell: "pwd -P", Timeout: time.Minute})
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	return strings.TrimSuffix(string(res.Stdout), "\n"), nil
}

// relative is a path as seen from the working directory.
func relative(home, name string) string {
	name = path.Clean(name)
	if rest, ok := strings.CutPrefix(name, home+"/"); ok && home != "" {
		return rest
	}
	return name
}

// declared keeps the files and folders that the task names.
func (w workspace) declared(ctx context.Context, keep func(name string, data []byte)) error {
	left := w.o.MaxTotal
	var errs []error
	file := func(name string) error {
		data, err := w.Box.ReadFile(ctx, name, min(w.o.MaxFile, max(left, 1)))
		if err != nil {
			return err
		}
		left -= int64(len(data))
		keep(name, data)
		return nil
	}
	for _, name := range w.Task.Artifacts {
		err := file(name)
		if err == nil {
			continue
		}
		search, ok := backends.As[backends.Searcher](w.Box)
		if !ok || errors.Is(err, fs.ErrNotExist) || errors.Is(err, backends.ErrTooLarge) {
			errs = append(errs, fmt.Errorf("keep %s: %w", name, err))
			continue
		}
		found, serr := search.Search(ctx, backends.Query{Root: name, Pattern: "*", Hidden: true, Limit: w.o.MaxFiles})
		if serr != nil {
			errs = append(errs, fmt.Errorf("keep %s: %w", name, err))
			continue
		}
		for _, m := range found.Matches {
			if err := file(m.Path); err != nil {
				errs = append(errs, fmt.Errorf("keep %s: %w", m.Path, err))
			}
		}
		if why := missed(found.Skipped); why != "" {
			errs = append(errs, fmt.Errorf("keep %s: not kept: %s", name, why))
		}
	}
	return errors.Join(errs...)
}

package box

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"

	"hermes/backends"
	"hermes/rollout/diff"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
)

// The kinds of what is asked for. Reading has the folder in its name.
const (
	kindCommands = "commands"
	kindCode     = "code"
	kindChanges  = "changes of files"
	kindInput    = "input to processes"
)

// approved asks before something is done in a box that is not isolated from the host.
func (x *session) approved(ctx context.Context, kind, format string, args ...any) (bool, error) {
	if x.free() {
		return true, nil
	}
	return x.scope.Approve(ctx, tool.Ask{Kind: kind, What: fmt.Sprintf(format, args...)})
}

// free reports whether no approval is needed.
func (x *session) free() bool { return x.scope.Approve == nil || x.scope.Isolated }

// mayRead asks before something outside of the box's working folder is read. Links count as what
// they lead to, in the path and in the folder.
func (x *session) mayRead(ctx context.Context, b backends.Sandbox, what, p string) (bool, error) {
	if x.free() {
		return true, nil
	}
	real, home, err := resolve(ctx, b, p)
	if err != nil {
		return false, err
	}
	if inside(real, home) {
		return true, nil
	}
	said := spelled(p)
	if real != p {
		said += " (" + spelled(real) + ")"
	}
	return x.approved(ctx, "reading outside of "+home, "%s: %s", what, said)
}

// resolver prints the folder in which the box's commands begin, then where a path leads. It asks
// from the root: /proc/self/cwd leads the process that reads the file elsewhere than this one.
const resolver = `pwd -P && case $1 in /*) p=$1 ;; *) p=$(pwd -P)/$1 ;; esac && cd / && readlink -m -- "$p"`

// resolve finds where a path leads, and the folder in which the box's commands begin.
func resolve(ctx context.Context, b backends.Sandbox, p string) (real, home string, err error) {
	r, err := b.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", resolver, "sh", p}, MaxOutput: 16 << 10})
	if err != nil {
		return "", "", fmt.Errorf("resolve %s: %w", p, err)
	}
	lines := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	if r.Code != 0 || len(lines) != 2 || !path.IsAbs(lines[0]) || !path.IsAbs(lines[1]) { // a name with a line feed, a folder that is gone
		return "where it leads is not known", "the working folder", nil
	}
	return lines[1], lines[0], nil
}

func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// spelled is a name as a question shows it: on one line, so that it cannot look like the rest
// of the question.
func spelled(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// folder is where a command runs.
func (x *session) folder(workdir string) string {
	cwd, known := x.sh.Dir()
	switch {
	case path.IsAbs(workdir), workdir == "~", strings.HasPrefix(workdir, "~/"):
		return workdir
	case known:
		return spelled(path.Join(cwd, workdir))
	case workdir != "":
		return workdir + ", of the working folder"
	}
	return "the working folder"
}

// notAllowed answers a call of a tool for files.
func notAllowed(what string) string { return what + " was not allowed" }

// changed shows what becomes of a file.
func changed(f file, after string) string {
	name := spelled(f.path)
	old := name
	if !f.exists {
		old = ""
	}
	return diff.Unified(old, name, f.text, after)
}

// changes shows what a patch does.
func changes(steps []step) string {
	var b strings.Builder
	for _, st := range steps {
		switch st.s.Op {
		case edit.Delete:
			fmt.Fprintf(&b, "delete %s\n", spelled(st.f.path))
			continue
		case edit.Move:
			fmt.Fprintf(&b, "move %s to %s\n", spelled(st.f.path), spelled(st.to.path))
		}
		if st.after != st.f.text {
			b.WriteString(changed(st.f, st.after))
		}
	}
	return b.String()
}

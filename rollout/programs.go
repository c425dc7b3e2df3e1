package rollout

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"hermes/backends"
	"hermes/envs"
)

// programs are what judges mostly run, as an image has them: by path, what is there. In the
// model's own box they are looked at before a reward is paid.
type programs map[string]string

// judgingPrograms names the programs that are looked at.
func judgingPrograms() []string {
	return strings.Fields("bash sh dash busybox python3 python env cat grep egrep test [ diff cmp sed awk gawk mawk head tail sort uniq tr wc cut jq node perl git make sha256sum md5sum timeout ls stat find true false echo printf")
}

// binFolders are where they lie; a link that leads elsewhere is followed once more.
func binFolders() []string { return []string{"/usr/local/bin", "/usr/bin", "/bin"} }

const (
	preload     = "/etc/ld.so.preload" // what the loader puts into every program
	mostProgram = 32 << 20
)

// note remembers the programs of an image from its first box, before a model is in it.
func (a *attempt) note(ctx context.Context, box backends.Sandbox) {
	if a.mode() != envs.VerifySame || !a.box.backend.Traits().Isolated || len(a.task.Row.ID) == 0 {
		return
	}
	if n, ok := a.runner.o.Env.(envs.NeedsBox); !ok || !n.NeedsBox(a.task) {
		return
	}
	if _, known := a.runner.o.Images.programs.LoadOrStore(a.box.spec.Image, programs(nil)); known {
		return
	}
	seen, err := survey(ctx, box)
	if err != nil { // others notice that the box is gone; the next one is looked at
		a.runner.o.Images.programs.Delete(a.box.spec.Image)
		return
	}
	a.runner.o.Images.programs.Store(a.box.spec.Image, seen)
}

// survey looks at the programs of a box; nil: commands in it cannot change them.
func survey(ctx context.Context, box backends.Sandbox) (programs, error) {
	r, err := box.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", "test -w /usr/bin || test -w /bin || test -w /etc"}, Dir: "/", Timeout: time.Minute})
	if err != nil || r.Code != 0 {
		return nil, err
	}
	paths := []string{preload}
	for _, name := range judgingPrograms() {
		for _, dir := range binFolders() {
			paths = append(paths, path.Join(dir, name))
		}
	}
	seen := programs{}
	for _, p := range paths {
		seen[p], err = look(ctx, box, p)
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// look is what is at a path, by its content; empty: nothing. The error says that the box is
// gone: that tells nothing of the path.
func look(ctx context.Context, box backends.Sandbox, p string) (string, error) {
	data, err := box.ReadFile(ctx, p, mostProgram)
	switch {
	case err == nil:
		return fmt.Sprintf("%x", sha256.Sum256(data)), nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case asOurs(err), ctx.Err() != nil:
		return "", err
	}
	return "cannot be read", nil
}

var word = regexp.MustCompile(`[A-Za-z0-9_.+\[-]+`)

// replaced names the programs of the scorer's commands that are not the image's any more.
func (a *attempt) replaced(ctx context.Context, box backends.Sandbox) (out []string, err error) {
	v, _ := a.runner.o.Images.programs.Load(a.box.spec.Image)
	was, _ := v.(programs)
	if len(was) == 0 {
		return nil, nil
	}
	names := []string{"bash", "sh"}
	for _, x := range a.saw {
		names = append(names, word.FindAllString(x.Cmd.Shell+" "+strings.Join(x.Cmd.Argv, " "), -1)...)
	}
	slices.Sort(names)
	paths := []string{preload}
	for _, name := range slices.Compact(names) {
		for _, dir := range binFolders() {
			paths = append(paths, path.Join(dir, path.Base(name)))
		}
	}
	for _, p := range paths {
		before, known := was[p]
		if !known {
			continue
		}
		now, err := look(ctx, box, p)
		if err != nil {
			return nil, err
		}
		if now != before {
			out = append(out, p)
		}
	}
	return out, nil
}

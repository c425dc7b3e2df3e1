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
	if _, known := a.runner.programs.LoadOrStore(a.box.spec.Image, programs(nil)); known {
		return
	}
	r, err := box.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", "test -w /usr/bin || test -w /bin || test -w /etc"}, Dir: "/", Timeout: time.Minute})
	if err != nil || r.Code != 0 {
		return // they cannot be written to; a box that is lost is noticed by others
	}
	seen := programs{preload: look(ctx, box, preload)}
	for _, name := range judgingPrograms() {
		for _, dir := range binFolders() {
			p := path.Join(dir, name)
			seen[p] = look(ctx, box, p)
		}
	}
	a.runner.programs.Store(a.box.spec.Image, seen)
}

// look is what stands at a path, by its content; empty: nothing.
func look(ctx context.Context, box backends.Sandbox, p string) string {
	data, err := box.ReadFile(ctx, p, mostProgram)
	switch {
	case err == nil:
		return fmt.Sprintf("%x", sha256.Sum256(data))
	case errors.Is(err, fs.ErrNotExist):
		return ""
	}
	return "cannot be read"
}

var word = regexp.MustCompile(`[A-Za-z0-9_.+\[-]+`)

// replaced names the programs of the scorer's commands that are not the image's any more.
func (a *attempt) replaced(ctx context.Context, box backends.Sandbox) (out []string) {
	v, _ := a.runner.programs.Load(a.box.spec.Image)
	was, _ := v.(programs)
	if len(was) == 0 {
		return nil
	}
	names := []string{"bash", "sh"}
	for _, x := range a.saw {
		names = append(names, word.FindAllString(x.Cmd.Shell+" "+strings.Join(x.Cmd.Argv, " "), -1)...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, dir := range binFolders() {
			p := path.Join(dir, path.Base(name))
			if before, known := was[p]; known && look(ctx, box, p) != before {
				out = append(out, p)
			}
		}
	}
	if look(ctx, box, preload) != was[preload] {
		out = append(out, preload)
	}
	return out
}

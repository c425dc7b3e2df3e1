//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/trees"
)

// prefix begins the names of folders of boxes; the owner follows, and what tells its boxes
// apart.
const prefix = "hermes-local-"

// sweepTime bounds the sweep of a back-end that begins.
const sweepTime = 10 * time.Second

// Sweep implements [backends.Sweeper]: it ends the processes that boxes of dead owners left
// and removes their folders. What New removed counts, once.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = sweep(ctx, b.conf.Dir)
	return removed + int(b.swept.Swap(0)), err
}

// SweepDefault sweeps where boxes are made when nothing else is said, whatever back-ends this
// hermes uses itself.
func SweepDefault(ctx context.Context) (removed int, err error) { return sweep(ctx, os.TempDir()) }

func sweep(ctx context.Context, dir string) (removed int, err error) {
	found, err := filepath.Glob(filepath.Join(dir, prefix+"*-*-*-*"))
	if err != nil {
		return 0, err
	}
	var errs []error
	dead := map[string]bool{} // by owner
	for _, base := range found {
		name := strings.TrimPrefix(filepath.Base(base), prefix)
		text := name[:strings.LastIndexByte(name, '-')]
		owner, err := backends.ParseOwner(text)
		if err != nil || strings.HasSuffix(base, lockEnd) {
			continue
		}
		if _, known := dead[text]; !known {
			dead[text] = isDead(dir, owner)
		}
		if !dead[text] {
			continue
		}
		if err := errors.Join(endBelow(ctx, base), trees.Remove(ctx, base)); err != nil {
			errs = append(errs, fmt.Errorf("sweep: box %s of process %d, which is dead: %w", base, owner.PID, err))
			continue
		}
		removed++
	}
	for _, lock := range locks(dir, "*-*-*") {
		name := strings.TrimPrefix(filepath.Base(lock), prefix)
		owner, err := backends.ParseOwner(name[:strings.LastIndexByte(name, '-')])
		if err == nil && (dead[owner.String()] || isDead(dir, owner)) {
			errs = append(errs, goneToo(os.Remove(lock)))
		}
	}
	return removed, errors.Join(errs...)
}

// goneToo does not mind that somebody else was faster to remove a file.
func goneToo(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// endBelow kills the processes of a box: those that were given its folder as home. It looks
// until none is left, since one that is killed may just have started another.
func endBelow(ctx context.Context, base string) error {
	home := []byte("HOME=" + filepath.Join(base, "home"))
	for left := -1; left != 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		left = 0
		all, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		for _, file := range all {
			env, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(append([]byte{0}, env...), append(append([]byte{0}, home...), 0)) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && unix.Kill(pid, unix.SIGKILL) == nil {
				left++
			}
		}
	}
	return nil
}

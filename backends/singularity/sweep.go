package singularity

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"hermes/backends"
	"hermes/backends/trees"
)

// Sweep implements [backends.Sweeper]: it stops the instances of dead owners and removes
// their folders and unfinished images. What belongs to a living process is not touched. Of
// our own boxes it removes those whose removal failed before. What Open removed counts,
// once.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = b.sweep(ctx)
	gone, rerr := b.held.Retry(ctx, func(x *box) bool { return x.left.Load() }, func(ctx context.Context, x *box) error { return x.end(ctx) })
	return removed + gone + int(b.swept.Swap(0)), errors.Join(err, rerr)
}

func (b *Backend) sweep(ctx context.Context) (removed int, err error) {
	all, err := b.program.instances(ctx, "hermes-")
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	var errs []error
	for _, i := range all {
		if !orphaned(i.Name) {
			continue
		}
		if err := b.program.stop(ctx, i.Name); err != nil {
			errs = append(errs, fmt.Errorf("sweep: stop %s: %w", i.Name, err))
			continue
		}
		removed++
	}
	for _, dir := range []string{b.conf.Dir, b.conf.Cache} {
		found, err := filepath.Glob(filepath.Join(dir, "hermes-*-*-*-*"))
		errs = append(errs, err)
		for _, path := range found {
			if !orphaned(filepath.Base(path)) {
				continue
			}
			if err := trees.RemoveAll(path); err != nil {
				errs = append(errs, fmt.Errorf("sweep: %w", err))
				continue
			}
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

// orphaned reports whether a name that we gave bears a dead owner.
func orphaned(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) < 5 || parts[0] != "hermes" {
		return false
	}
	owner, err := backends.ParseOwner(strings.Join(parts[1:4], "-"))
	return err == nil && owner.Dead()
}

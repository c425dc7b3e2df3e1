package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"hermes/backends"
)

// Labels of everything that is made here. They cannot change later.
const (
	labelOwner   = "hermes.owner"   // as backends.Owner writes it
	labelBoot    = "hermes.boot"    // of the owner's machine: pids mean nothing on another
	labelExpires = "hermes.expires" // Unix seconds after which a sweep removes the box, whoever made it
	labelSpec    = "hermes.spec"    // digest of what was asked for
	labelKind    = "hermes.kind"    // box, build or snapshot
	labelUser    = "hermes.label."  // prefix of the labels of a Spec
)

// kindSnapshot is the kind of images of boxes that were frozen.
const kindSnapshot = "snapshot"

// lifetime is how long a box may live at all, for those whose owner cannot be looked at,
// and how long after its box was made a snapshot is kept.
const lifetime = 48 * time.Hour

// labels are those of a box.
func (b *Backend) labels(more map[string]string) map[string]string {
	l := map[string]string{}
	for k, v := range more {
		l[labelUser+k] = v
	}
	maps.Copy(l, map[string]string{labelKind: "box", labelOwner: b.owner.String(), labelBoot: backends.BootID(),
		labelExpires: strconv.FormatInt(time.Now().Add(lifetime).Unix(), 10)})
	return l
}

// Sweep implements [backends.Sweeper]: it removes what dead owners left in the engine and
// in the folder for temporary files. What belongs to a living process, or to one that
// cannot be looked at, is not touched before it expires. Of our own boxes it removes those
// whose removal failed before. What Open removed counts, once.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = b.engine.sweep(ctx)
	gone, rerr := b.held.Retry(ctx, func(x *box) bool { return x.left.Load() }, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	return removed + gone + int(b.swept.Swap(0)), errors.Join(err, rerr)
}

func (e *engine) sweep(ctx context.Context) (removed int, err error) {
	all, err := e.web.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
	if err != nil {
		return 0, fmt.Errorf("sweep: list containers: %w", err)
	}
	boot := backends.BootID()
	var mu sync.Mutex
	var errs []error
	var done sync.WaitGroup
	places := make(chan struct{}, 8)
	for _, c := range all {
		if c.Labels[labelKind] != "box" || !orphaned(c, boot, time.Now()) {
			continue
		}
		places <- struct{}{}
		done.Go(func() {
			defer func() { <-places }()
			err := e.remove(ctx, c.ID)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("sweep: remove %s: %w", strings.Join(c.Names, " "), err))
				return
			}
			removed++
		})
	}
	done.Wait()
	n, err := e.sweepSnapshots(ctx)
	m, ferr := sweepFolders()
	return removed + n + m, errors.Join(append(errs, err, ferr)...)
}

// sweepSnapshots removes images of boxes that were frozen and have expired with them. One
// that a box is made of stays.
func (e *engine) sweepSnapshots(ctx context.Context) (removed int, err error) {
	all, err := e.web.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelKind+"="+kindSnapshot))})
	if err != nil {
		return 0, fmt.Errorf("sweep: list snapshots: %w", err)
	}
	var errs []error
	for _, i := range all {
		if !expired(i.Labels, time.Now()) {
			continue
		}
		for _, ref := range append(slices.Clone(i.RepoTags), i.ID) { // the last name takes the image with it
			_, err = e.web.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
			if err != nil && !cerrdefs.IsNotFound(err) {
				break
			}
		}
		switch {
		case err == nil || cerrdefs.IsNotFound(err):
			removed++
		case !cerrdefs.IsConflict(err): // a box uses it
			errs = append(errs, fmt.Errorf("sweep: remove snapshot %s: %w", i.ID, err))
		}
	}
	return removed, errors.Join(errs...)
}

// expired reports whether the time of something is over, whoever made it.
func expired(labels map[string]string, now time.Time) bool {
	until, err := strconv.ParseInt(labels[labelExpires], 10, 64)
	return err == nil && now.Unix() > until
}

// orphaned reports whether no process can need a container any more.
func orphaned(c container.Summary, boot string, now time.Time) bool {
	if expired(c.Labels, now) {
		return true
	}
	if c.Labels[labelBoot] != boot || boot == "" {
		return false
	}
	owner, err := backends.ParseOwner(c.Labels[labelOwner])
	return err == nil && owner.Dead()
}

// sweepFolders removes folders of sockets whose boxes were being made when hermes died.
func sweepFolders() (removed int, err error) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "hermes-*-*-*-*-*"))
	var errs []error
	for _, dir := range found {
		parts := strings.Split(filepath.Base(dir), "-")
		if len(parts) != 6 {
			continue
		}
		owner, perr := backends.ParseOwner(strings.Join(parts[1:4], "-"))
		if perr != nil || !owner.Dead() {
			continue
		}
		if rerr := os.RemoveAll(dir); rerr != nil {
			errs = append(errs, rerr)
			continue
		}
		removed++
	}
	return removed, errors.Join(append(errs, err)...)
}

// remove ends and removes a container. One that is gone is removed; one that somebody
// else is removing is waited for.
func (e *engine) remove(ctx context.Context, name string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for try := 1; ; try++ {
		err := e.web.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || cerrdefs.IsNotFound(err):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case cerrdefs.IsConflict(err): // removal is under way
		case try >= 5: // engines answer 500 after their own races
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

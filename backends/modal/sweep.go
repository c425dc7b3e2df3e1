package modal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/backends/modal/wire"
)

// Tags of sandboxes.
const (
	tagKind    = "hermes-kind"    // box
	tagOwner   = "hermes-owner"   // as backends.Owner writes it
	tagBoot    = "hermes-boot"    // of the owner's machine: pids mean nothing on another
	tagExpires = "hermes-expires" // Unix seconds after which a sweep removes the box, whoever made it
	tagUser    = "hermes-label-"  // prefix of the labels of a Spec
)

// maxTag bounds the name and the value of a tag that is not ours.
const maxTag = 63

// maxPages bounds a list, and sweeps the terminations under way.
const (
	maxPages = 1000
	sweeps   = 8
)

// tags are those of a box.
func (b *Backend) tags(labels map[string]string, lifetime time.Duration) []*wire.Tag {
	all := []*wire.Tag{{Name: tagKind, Value: "box"}, {Name: tagOwner, Value: b.owner.String()}, {Name: tagBoot, Value: b.boot},
		{Name: tagExpires, Value: strconv.FormatInt(time.Now().Add(lifetime+time.Hour).Unix(), 10)}}
	for k, v := range labels {
		all = append(all, &wire.Tag{Name: clean(tagUser + k), Value: clean(v)})
	}
	slices.SortFunc(all, func(x, y *wire.Tag) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// clean makes a text one that any service takes as a tag.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	return s[:min(len(s), maxTag)]
}

// Sweep implements [backends.Sweeper]: it ends the sandboxes of dead owners in the apps
// of all profiles. What belongs to a living process, or to one that cannot be looked at,
// is not touched before it expires. Of our own boxes it ends those whose end failed before.
// What Open removed counts, once.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = b.sweep(ctx)
	gone, rerr := b.held.Retry(ctx, func(x *box) bool { return x.left.Load() }, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	return removed + gone + int(b.swept.Swap(0)), errors.Join(err, rerr)
}

func (b *Backend) sweep(ctx context.Context) (removed int, err error) {
	var errs []error
	seen := map[string]bool{}
	for _, p := range b.profiles {
		if p.resting() != nil {
			continue // a token that is refused shows elsewhere
		}
		if err := p.learn(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		if seen[p.app] {
			continue
		}
		seen[p.app] = true
		n, err := b.sweepApp(ctx, p)
		removed += n
		if err != nil {
			errs = append(errs, p.explain(err))
		}
	}
	return removed, errors.Join(errs...)
}

func (b *Backend) sweepApp(ctx context.Context, p *profile) (removed int, err error) {
	all, err := p.list(ctx)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var errs []error
	var done sync.WaitGroup
	places := make(chan struct{}, sweeps)
	for _, s := range all {
		if !orphaned(s, b.boot, time.Now()) {
			continue
		}
		places <- struct{}{}
		done.Go(func() {
			defer func() { <-places }()
			err := p.api.terminate(ctx, s.ID)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("sweep: sandbox %s: %w", s.ID, err))
				return
			}
			removed++
		})
	}
	done.Wait()
	return removed, errors.Join(errs...)
}

// list lists the running boxes of a profile's app, page by page: the next one begins
// before the oldest of the last.
func (p *profile) list(ctx context.Context) ([]*wire.Listed, error) {
	var all []*wire.Listed
	seen := map[string]bool{}
	before := 0.0
	for range maxPages {
		var page wire.ListAnswer
		err := p.api.call(ctx, wire.SandboxList, &wire.ListRequest{AppID: p.app, Before: before, Environment: p.Environment,
			Tags: []*wire.Tag{{Name: tagKind, Value: "box"}}}, &page)
		if err != nil {
			return nil, fmt.Errorf("sweep: list sandboxes: %w", err)
		}
		fresh := false
		for _, s := range page.Sandboxes {
			if !seen[s.ID] {
				seen[s.ID], fresh = true, true
				all = append(all, s)
			}
			if before == 0 || s.Created < before {
				before = s.Created
			}
		}
		if !fresh {
			return all, nil
		}
	}
	return nil, fmt.Errorf("sweep: the list of sandboxes has no end after %d pages", maxPages)
}

// orphaned reports whether no process can need a sandbox any more.
func orphaned(s *wire.Listed, boot string, now time.Time) bool {
	tag := func(name string) string {
		for _, t := range s.Tags {
			if t.Name == name {
				return t.Value
			}
		}
		return ""
	}
	if tag(tagKind) != "box" {
		return false
	}
	if until, err := strconv.ParseInt(tag(tagExpires), 10, 64); err == nil && now.Unix() > until {
		return true
	}
	if boot == "" || tag(tagBoot) != boot {
		return false
	}
	owner, err := backends.ParseOwner(tag(tagOwner))
	return err == nil && owner.Dead()
}

package nomad

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
)

// Times of owners that cannot be looked at.
const (
	lifetime  = 7 * 24 * time.Hour // after which a sweep removes a job, whoever made it
	signEvery = time.Minute        // between signs of life of an owner in its job
	deadAfter = 15 * time.Minute   // without one, the owner of another machine is dead
)

// meta is what a job says about its owner. It cannot change later: Nomad would replace
// every allocation.
func (b *Backend) meta(s shape) map[string]string {
	return map[string]string{metaOwner: b.owner.String(), metaBoot: b.boot, metaSpec: s.digest(),
		metaExpires: strconv.FormatInt(time.Now().Add(lifetime).Unix(), 10)}
}

// Sweep implements [backends.Sweeper]: it removes the jobs of dead owners. One of this
// machine is dead when its process is; one of another when its job had no sign of life for
// a time. What Open removed counts, once.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = b.sweep(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	removed, b.swept = removed+b.swept, 0
	return removed, err
}

func (b *Backend) sweep(ctx context.Context) (removed int, err error) {
	q := b.query(ctx)
	q.Prefix = jobPrefix
	all, _, err := b.web.Jobs().ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}}, q)
	if err != nil {
		return 0, answered("sweep: list jobs", err)
	}
	var errs []error
	for _, j := range all {
		if j.Meta[metaOwner] == "" || !b.orphaned(ctx, j) {
			continue
		}
		if _, _, err := b.web.Jobs().Deregister(j.ID, true, b.write(ctx)); err != nil && !missing(err) {
			errs = append(errs, answered("sweep: remove job "+j.ID, err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// orphaned reports whether no process can need a job any more.
func (b *Backend) orphaned(ctx context.Context, j *api.JobListStub) bool {
	if until, err := strconv.ParseInt(j.Meta[metaExpires], 10, 64); err == nil && time.Now().Unix() > until {
		return true
	}
	owner, err := backends.ParseOwner(j.Meta[metaOwner])
	if err != nil {
		return false // of a version of hermes that we do not know
	}
	if b.boot != "" && j.Meta[metaBoot] == b.boot && owner.Space == b.owner.Space {
		return owner.Dead()
	}
	last := time.Unix(0, j.SubmitTime)
	s, _, err := b.web.Jobs().ScaleStatus(j.ID, b.query(ctx))
	if err != nil {
		return false
	}
	for _, e := range s.TaskGroups[groupName].Events {
		if at := time.Unix(0, int64(e.Time)); at.After(last) {
			last = at
		}
	}
	return time.Since(last) > deadAfter
}

// sign notes in the job that its owner lives: a scaling event that scales nothing.
func (g *group) sign(ctx context.Context) error {
	_, _, err := g.b.web.Jobs().Scale(g.id, groupName, nil, fmt.Sprintf("owner %s lives", g.b.owner), false, nil, g.b.write(ctx))
	return err
}

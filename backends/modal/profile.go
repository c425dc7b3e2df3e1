package modal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/backends/modal/wire"
)

// How long a profile is left out after a failure, unless the service says otherwise.
const (
	quotaRest = 5 * time.Second
	authRest  = time.Minute
	maxRest   = 5 * time.Minute
)

// profile is an account and what its boxes are.
type profile struct {
	Settings
	name           string
	api            *api
	user, password string // of the registry
	images         *images
	making         chan struct{} // bounds the creations under way

	learning chan struct{} // held by whoever looks the app up
	app      string        // its id; "" until it was looked up
	builder  string        // version of the image builder

	mu    sync.Mutex
	boxes int       // in use and being made
	rest  time.Time // it is left out until then
	why   error
	next  time.Time // when the next box may be made
}

// profiles makes those of the configuration. Accounts that are the same share a
// connection.
func profiles(life context.Context, c Config, at Surroundings) ([]*profile, []*api, error) {
	var all []*profile
	var accounts []*api
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		s := c.Profiles[name]
		p := &profile{Settings: s, name: name, making: make(chan struct{}, s.Creates), learning: make(chan struct{}, 1)}
		p.images = &images{life: life, p: p, known: map[string]*readied{}}
		var id, secret string
		for _, v := range []struct {
			name string
			to   *string
		}{{s.TokenID, &id}, {s.TokenSecret, &secret}, {s.RegistryUser, &p.user}, {s.RegistryPassword, &p.password}} {
			*v.to = at.get(v.name)
			if v.name != "" && *v.to == "" {
				return nil, accounts, fmt.Errorf("profile %s: the variable %s is not set", name, v.name)
			}
		}
		if i := slices.IndexFunc(accounts, func(a *api) bool { return a.id == id && a.secret == secret }); i >= 0 {
			p.api = accounts[i]
		} else {
			a, err := connect(c.Server, id, secret, c.Call)
			if err != nil {
				return nil, accounts, err
			}
			accounts, p.api = append(accounts, a), a
		}
		all = append(all, p)
	}
	return all, accounts, nil
}

// learn looks the app up, and the environment's version of the image builder, once.
func (p *profile) learn(ctx context.Context) error {
	select {
	case p.learning <- struct{}{}:
		defer func() { <-p.learning }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.app != "" {
		return nil
	}
	var e wire.Environment
	if err := p.api.call(ctx, wire.EnvironmentGetOrCreate, &wire.EnvironmentRequest{Name: p.Environment, Creation: wire.LookUp}, &e); err != nil {
		return p.explain(fmt.Errorf("environment %q: %w", p.Environment, err))
	}
	var a wire.App
	err := p.api.call(ctx, wire.AppGetOrCreate, &wire.AppRequest{Name: p.App, Environment: p.Environment, Creation: wire.CreateIfMissing}, &a)
	if err == nil && a.ID == "" {
		err = fmt.Errorf("%w: the answer has no id", ErrInternal)
	}
	if err != nil {
		return p.explain(fmt.Errorf("app %s: %w", p.App, err))
	}
	if e.Metadata != nil && e.Metadata.Settings != nil {
		p.builder = e.Metadata.Settings.Builder
	}
	p.app = a.ID
	return nil
}

// explain adds to an error where to look, without what is there.
func (p *profile) explain(err error) error {
	switch {
	case errors.Is(err, ErrAuth):
		return fmt.Errorf("profile %s: %w (look at the variables %s and %s): %w", p.name, ErrAuth, p.TokenID, p.TokenSecret, err)
	case errors.Is(err, ErrQuota):
		return fmt.Errorf("profile %s: %w: %w", p.name, ErrQuota, err)
	}
	return fmt.Errorf("profile %s: %w", p.name, err)
}

// load is how full a profile is for its weight.
func (p *profile) load() float64 { return float64(p.boxes+1) / p.Weight }

// take takes a place of a profile, and reports whether there was one.
func (p *profile) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Max > 0 && p.boxes >= p.Max {
		return false
	}
	p.boxes++
	return true
}

// resting says why a profile is left out now, or nil.
func (p *profile) resting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.rest); left > 0 {
		return fmt.Errorf("not asked again for %v: %w", left.Round(time.Millisecond), p.why)
	}
	return nil
}

// note has a profile left out for a while after an error that its other boxes would meet
// too, and reports whether another profile may do without it.
func (p *profile) note(err error) (spills bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest time.Duration
	switch {
	case err == nil:
		p.rest, p.why = time.Time{}, nil
		return false
	case errors.Is(err, ErrQuota):
		rest = quotaRest
		if c, ok := errors.AsType[*callError](err); ok && c.after > 0 {
			rest = min(c.after, maxRest)
		}
	case errors.Is(err, ErrAuth):
		rest = authRest
	default:
		return errors.Is(err, ErrNoService)
	}
	p.rest, p.why = time.Now().Add(rest), err
	return true
}

// pace waits for the next moment in which a box may be made.
func (p *profile) pace(ctx context.Context) error {
	if p.Rate == 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.Rate))
	p.mu.Unlock()
	return sleep(ctx, wait)
}

// wanted reads which profiles may make a box of an image, and the image's own name:
// @NAME or @NAME/IMAGE asks for a profile or a class.
func (b *Backend) wanted(image string) ([]*profile, string, error) {
	name := b.conf.Use
	if rest, ok := strings.CutPrefix(image, "@"); ok {
		name, image, _ = strings.Cut(rest, "/")
	}
	var fit []*profile
	for _, p := range b.profiles {
		if p.name == name || p.Class == name {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return nil, "", fmt.Errorf("%w: no profile or class %q (have %s)", errNoProfile, name, strings.Join(slices.Sorted(maps.Keys(b.conf.Profiles)), ", "))
	}
	return fit, image, nil
}

var errNoProfile = errors.New("unknown profile")

// pick takes a place of the profile that is the least loaded among those that work. It
// waits where all are full. Without any that works the error says why.
func (b *Backend) pick(ctx context.Context, among []*profile) (*profile, error) {
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		var why []error
		var fit []*profile
		for _, p := range among {
			if err := p.resting(); err != nil {
				why = append(why, err)
			} else {
				fit = append(fit, p)
			}
		}
		if len(fit) == 0 {
			return nil, errors.Join(why...)
		}
		loads := map[*profile]float64{}
		for _, p := range fit {
			p.mu.Lock()
			loads[p] = p.load()
			p.mu.Unlock()
		}
		slices.SortStableFunc(fit, func(x, y *profile) int { return cmp.Compare(loads[x], loads[y]) })
		for _, p := range fit {
			if p.take() {
				return p, nil
			}
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a place among %d boxes of profile %s: %w", fit[0].Max, fit[0].name, context.Cause(ctx))
		}
	}
}

// free gives a place back.
func (b *Backend) free(p *profile) {
	p.mu.Lock()
	p.boxes--
	p.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.freed)
	b.freed = make(chan struct{})
}

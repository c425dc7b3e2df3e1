// Package nomad makes boxes of slots on a Nomad cluster.
//
// Slots are the allocations of one job for each process of hermes and image. In each of
// them slotd listens on a port that Nomad chose; a box is a lease of it, which the driver
// renews. When hermes dies the leases end and the slots wipe themselves; its job is
// removed by the next sweep of anybody (`hermes sandbox gc`). The job's count follows the
// demand between Config.Min and Config.Max. A used slot is reset and leased again; one
// that is not clean afterwards is stopped and Nomad puts another in its place.
//
// The cluster is asked only when slots come and go: commands travel between hermes and
// slotd, so boxes go on working while no agent answers.
//
// A [Backend] and its boxes are safe for concurrent use.
package nomad

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/slotd/wire"
	"hermes/internal/address"
)

// Name is the back-end's name in configuration and traits.
const Name = "nomad"

// Kind returns the registry value of this back-end on a machine described by at.
func Kind(at Surroundings) backends.Kind {
	k := backends.NewKind(Name, func(ctx context.Context, c Config) (backends.Backend, error) {
		return Open(ctx, c, at)
	})
	k.Around = func(env func(string) string, tell func(string)) backends.Kind {
		return Kind(Surroundings{Address: env("NOMAD_ADDR"), Region: env("NOMAD_REGION"), Namespace: env("NOMAD_NAMESPACE"), Token: env("NOMAD_TOKEN"), Tell: tell,
			TLS: TLS{CACert: env("NOMAD_CACERT"), ClientCert: env("NOMAD_CLIENT_CERT"), ClientKey: env("NOMAD_CLIENT_KEY"), ServerName: env("NOMAD_TLS_SERVER_NAME")}})
	}
	return k
}

// Backend makes boxes of slots.
type Backend struct {
	conf   Config
	at     Surroundings
	web    *api.Client
	hangUp func() // closes connections to the agent that rest
	owner  backends.Owner
	boot   string
	tag    string // tells its jobs from those of other back-ends of this process
	held   backends.Held[*box]
	life   context.Context // of the groups; ends with Close
	stop   context.CancelFunc

	mu     sync.Mutex
	groups map[shape]*group
	swept  int // removed by Open and not yet reported
}

const (
	askTime        = 30 * time.Second // bounds one question to an agent
	forbiddenTries = 10               // before a token counts as refused
	minMemory      = 64 << 20         // bytes of a slot: slotd alone needs half of it for a large input
	processes      = 256              // of a slot of driver docker, unless a box asks for another number
	serverThreads  = 32               // that slotd may have beside them
)

// Open looks for an agent, removes what dead owners left and, with Config.Min, begins to
// make slots. It fails with backends.ErrUnavailable where no agent with a leader answers.
func Open(ctx context.Context, c Config, at Surroundings) (*Backend, error) {
	c, err := c.complete(at)
	if err != nil {
		return nil, err
	}
	web, hangUp, err := connect(c, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	if at.Dial == nil {
		at.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &Backend{conf: c, at: at, web: web, hangUp: hangUp, owner: backends.Self(), boot: backends.BootID(), tag: wire.NewID()[:6], groups: map[shape]*group{}, life: life, stop: stop}
	var leader string
	if _, err := web.Raw().Query("/v1/status/leader", &leader, b.query(ctx)); err != nil {
		stop()
		hangUp()
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, answered("ask "+c.Address+" for the cluster's leader", err))
	}
	b.swept, err = b.sweep(ctx)
	for range forbiddenTries { // a server that has just started refuses good tokens too
		if !forbidden(err) || !pause(ctx, 100*time.Millisecond) {
			break
		}
		b.swept, err = b.sweep(ctx)
	}
	if forbidden(err) {
		stop()
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	if err != nil {
		b.at.say("%v", err) // what it could not remove does not hinder us
	}
	if c.Min > 0 {
		if _, err := b.group(ctx, b.shape(backends.Spec{})); err != nil {
			return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}
	return b, nil
}

// connect makes a client, and what closes its connections, that takes nothing from the environment by itself.
func connect(c Config, at Surroundings) (client *api.Client, hangUp func(), err error) {
	if err := address.CheckURL("NOMAD_ADDR", c.Address); err != nil {
		return nil, nil, err
	}
	token := at.Token
	if c.TokenFile != "" {
		raw, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, nil, fmt.Errorf("ACL token: %w", err)
		}
		token = strings.TrimSpace(string(raw))
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	web := &http.Client{Transport: t}
	tls := &api.TLSConfig{CACert: c.TLS.CACert, ClientCert: c.TLS.ClientCert, ClientKey: c.TLS.ClientKey, TLSServerName: c.TLS.ServerName}
	if err := api.ConfigureTLS(web, tls); err != nil {
		return nil, nil, fmt.Errorf("TLS: %w", err)
	}
	client, err = api.NewClient(&api.Config{Address: c.Address, Region: c.Region, Namespace: c.Namespace, SecretID: token, HttpClient: web})
	if err != nil {
		return nil, nil, fmt.Errorf("address %s: %w", c.Address, err)
	}
	return client, t.CloseIdleConnections, nil
}

// query and write are the options of calls to the API.
func (b *Backend) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: b.conf.Namespace, Region: b.conf.Region}).WithContext(ctx)
}

func (b *Backend) write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{Namespace: b.conf.Namespace, Region: b.conf.Region}).WithContext(ctx)
}

// shape is the kind of slot that a box needs.
func (b *Backend) shape(s backends.Spec) shape {
	h := shape{image: cmp.Or(s.Image, b.conf.Image), memory: b.conf.Memory, cpu: b.conf.CPU}
	if b.conf.Driver == driverDocker {
		h.memory = cmp.Or(s.Limits.Memory, h.memory)
		h.processes = cmp.Or(s.Limits.Processes, processes)
	}
	return h
}

// Open implements [backends.Backend]. It waits for a slot while the cluster makes one or
// others use all.
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	ctx, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if b.conf.Driver == driverRaw && s.Image != "" {
		return nil, fmt.Errorf("open a box: image %q: slots of driver raw_exec have no images: %w", s.Image, backends.ErrImage)
	}
	h := b.shape(s)
	if h.memory < minMemory || h.processes < 0 {
		return nil, fmt.Errorf("open a box: limits of %d bytes of memory and %d processes: want at least %d and 1", h.memory, h.processes, minMemory)
	}
	g, err := b.group(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("open a box: %w", err)
	}
	x, err := g.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open a box: %w", err)
	}
	b.held.Add(x)
	return x, nil
}

// group finds or registers the job for a shape.
func (b *Backend) group(ctx context.Context, h shape) (*group, error) {
	b.mu.Lock()
	g := b.groups[h]
	if g == nil {
		g = newGroup(b, h, rand.Text()+rand.Text())
		b.groups[h] = g
	}
	b.mu.Unlock()
	return g, g.register(ctx)
}

// others lists the groups but one.
func (b *Backend) others(not *group) (all []*group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		if g != not {
			all = append(all, g)
		}
	}
	return all
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits {
	t := backends.Traits{Name: Name, Isolated: b.conf.Driver != driverRaw, Network: "host", Slots: b.conf.Max, Queued: true, PTY: true,
		Images: b.conf.Driver != driverRaw, Root: b.conf.Driver == driverDocker || b.conf.Driver == driverRaw && !b.conf.Rootless}
	t.Notes = append(t.Notes, fmt.Sprintf("driver %s of %s, %d to %d slots", b.conf.Driver, b.conf.Address, b.conf.Min, b.conf.Max))
	switch b.conf.Driver {
	case driverDocker:
		t.MemoryBy = "cgroup"
		t.Notes = append(t.Notes, fmt.Sprintf("network as Nomad gives it to containers; %d processes; disk is not limited", processes))
	case driverRaw:
		t.Notes = append(t.Notes, "no isolation: commands run on the node as the agent's user; no limit is promised")
	case driverSingularity:
		t.Notes = append(t.Notes, "network of the node; no limit is promised")
	}
	return t
}

// Close implements [backends.Backend]. The jobs are removed with their allocations.
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	b.stop()
	errs := []error{err}
	for _, g := range b.others(nil) {
		errs = append(errs, g.close(ctx))
	}
	b.hangUp()
	return errors.Join(errs...)
}

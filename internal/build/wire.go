package build

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"hermes/internal/settings"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

func (m *Model) wire(ctx context.Context, s served) (*wire.Client, error) {
	bases := s.bases
	o := wire.Options{Bases: bases, Concurrency: m.from.Requests, Retries: m.from.RequestRetries, Whole: m.from.RequestTimeout, Idle: m.from.IdleTimeout, Seed: uint64(m.from.Seed), Log: m.log}
	var err error // a server that was found and not named gets no key: anyone can listen at its port
	if o.Keys, o.KeyNames, err = m.keysFor(bases, s.own && len(bases) > 0 && !m.from.Embedded); err != nil {
		return nil, err
	}
	if m.from.RequestRetries == 0 {
		o.Retries = -1
	}
	switch {
	case m.from.Cassette != "":
		f, err := os.Open(m.from.Cassette)
		if err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
		defer f.Close()
		if o.Replay, err = wire.ReadCassette(m.from.Cassette, f); err != nil {
			return nil, fmt.Errorf("--cassette: %w", err)
		}
	case len(bases) == 0:
		found, err := servers.Discover(ctx, servers.LocalBases(), wire.Options{Log: m.log})
		if err != nil && len(found) == 0 {
			return nil, fmt.Errorf("no --base-url, and no model server on this machine answers: %w", err)
		}
		if len(found) == 0 {
			return nil, errors.New("no --base-url, and no model server on this machine answers")
		}
		o.Bases = []string{found[0].Base}
		fmt.Fprintf(m.host.Err, "model server: %s, found on this machine", found[0].Base)
		for _, f := range found[1:] {
			fmt.Fprintf(m.host.Err, "; %s answers too, choose with --base-url", f.Base)
		}
		fmt.Fprintln(m.host.Err)
	}
	if m.from.Record != "" && m.from.Cassette == "" {
		f, err := os.OpenFile(m.from.Record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		m.closers.Add(f.Close)
		o.Record = wire.NewRecorder(f)
	}
	c, err := wire.New(o)
	if err == nil {
		m.raise = append(m.raise, c.SetConcurrency)
		m.loads = append(m.loads, c.Loads)
	}
	return c, err
}

// known keeps the first model's servers as the run's own.
func (m *Model) known(w *wire.Client) {
	if m.origins == nil {
		for _, base := range w.Bases() {
			m.origins = append(m.origins, Origin(base))
		}
	}
}

// follow lets the requests follow the length of the queue of a server that tells it.
func (m *Model) follow(ctx context.Context, w *wire.Client, p servers.Profile) {
	if m.from.Watch && p.Metrics && w.Watch(ctx, time.Second) {
		m.log.Debug("requests follow the length of the server's queue", "server", w.Bases()[0])
	}
}

// keysFor returns the keys that may be sent to servers at bases, and the names of their variables. A name without a host
// belongs to the run's own servers, and its key goes to no other one; HOST=NAME belongs
// to that host.
func (m *Model) keysFor(bases []string, own bool) (list, names []string, _ error) {
	for _, text := range m.from.APIKeyEnv {
		host, name, bound := strings.Cut(text, "=")
		if !bound {
			name = text
		}
		if name == "" {
			return nil, nil, fmt.Errorf("--api-key-env %q: want NAME or HOST=NAME", text)
		}
		send := own
		if bound {
			n := 0
			for _, base := range bases {
				if u, err := url.Parse(base); err == nil && (u.Host == host || u.Hostname() == host) {
					n++
				}
			}
			if n > 0 && n < len(bases) {
				return nil, nil, fmt.Errorf("--api-key-env %s: the base URLs name other hosts too, which would get this key", text)
			}
			send = n > 0
		}
		if !send {
			continue
		}
		key := m.host.Env(name)
		if err := settings.WantKey(name, key); err != nil {
			return nil, nil, fmt.Errorf("--api-key-env %s: %w", text, err)
		}
		if key != "" {
			list, names = append(list, key), append(names, name)
		}
	}
	return list, names, nil
}

// ours reports whether all of bases are servers of the run itself.
func (m *Model) ours(bases []string) bool {
	return !slices.ContainsFunc(bases, func(base string) bool { return !slices.Contains(m.origins, Origin(base)) })
}

// Origin is scheme, host and port of an address: whom a key is sent to.
func Origin(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

package wire

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/internal/address"
)

// replica is one base URL with its own limiter.
type replica struct {
	base  string // without a slash at its end
	url   *url.URL
	limit *limiter

	mu    sync.Mutex
	fails int
	down  time.Time // not asked before this time, if there is another
	news  news
	rests map[*rest]bool // requests that wait before they are sent again
}

func newReplica(base string, ceiling int) (*replica, error) {
	u, err := checkBase(strings.TrimRight(strings.TrimSpace(base), "/"))
	if err != nil {
		return nil, err
	}
	return &replica{base: u.String(), url: u, limit: newLimiter(ceiling), news: news{share: 1}}, nil
}

// routes are what follows a base URL in an address that was copied whole.
var routes = []string{"/chat/completions", "/completions", "/models", "/responses", "/embeddings"}

// checkBase reads a base URL; its errors say what to write instead.
func checkBase(base string) (*url.URL, error) {
	if err := address.CheckURL("--base-url", base); err != nil {
		return nil, err
	}
	u, err := url.Parse(base)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		for _, r := range routes {
			if path, ok := strings.CutSuffix(u.Path, r); ok {
				shown := *u
				shown.Path, shown.RawPath = path, ""
				return nil, fmt.Errorf("base URL %q ends in the route %s, which hermes adds itself: write --base-url %s", u.String(), r, shown.String())
			}
		}
		if one, more, ok := strings.Cut(u.String(), ","); ok && strings.Contains(more, "://") {
			return nil, fmt.Errorf("base URL %q has another behind a comma: write --base-url once for each server", one)
		}
		if u.Fragment != "" {
			shown := *u
			shown.Fragment, shown.RawFragment = "", ""
			return nil, fmt.Errorf("base URL %q has a fragment, which no request would carry: write --base-url %s", shown.String()+"#"+address.Hidden, shown.String())
		}
		return u, nil
	}
	// localhost:8000/v1 reads as scheme localhost, 127.0.0.1:8000/v1 as no URL at all.
	if guess, e := url.Parse("http://" + base); e == nil && !strings.Contains(base, "://") && hostLike(guess) {
		return nil, fmt.Errorf("base URL %q has no scheme: write --base-url %s (or https)", guess.String()[len("http://"):], guess.String())
	}
	if err != nil {
		return nil, fmt.Errorf("base URL %q: %w", base, errors.Unwrap(err))
	}
	return nil, fmt.Errorf("base URL %q: want http://HOST or https://HOST", u.String())
}

// hostLike tells a server's name from a word: it has a port, a dot, or is this machine.
func hostLike(u *url.URL) bool {
	return u.Port() != "" || strings.Contains(u.Host, ".") || u.Host == "localhost"
}

// failed takes the replica out for a while, longer with each failure in a row.
func (r *replica) failed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails++
	r.down = now.Add(min(5*time.Minute, 5*time.Second<<min(r.fails-1, 6)))
}

func (r *replica) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails, r.down = 0, time.Time{}
	r.news.answered(time.Now())
}

// failing says what the failure of a request means beside those of others.
func (r *replica) failing(t *tries, e *Error) blame {
	crowd := r.limit.most() >= leastCrowd
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news.failed(t, e, crowd, time.Now())
}

func (r *replica) up(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !now.Before(r.down)
}

// score is the rendezvous weight of a replica for a route: each route ranks all
// replicas, and one that comes or goes moves only its own routes.
func score(base, route string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(base))
	h.Write([]byte{0})
	h.Write([]byte(route))
	x := h.Sum64() // fnv's high bits differ little for texts that differ at the end
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// fleet is the set of replicas; with a file it follows the file.
type fleet struct {
	file    string
	ceiling int
	now     func() time.Time

	mu     sync.Mutex
	list   []*replica
	looked time.Time
	stamp  time.Time
	size   int64
}

func newFleet(bases []string, ceiling int, now func() time.Time) (*fleet, error) {
	f := &fleet{ceiling: ceiling, now: now}
	if len(bases) == 1 && strings.HasPrefix(bases[0], "@") {
		f.file = bases[0][1:]
		return f, f.read()
	}
	return f, f.set(bases)
}

// set replaces the list; replicas that stay keep what they learnt.
func (f *fleet) set(bases []string) error {
	old := map[string]*replica{}
	for _, r := range f.list {
		old[r.url.String()] = r
	}
	var list []*replica
	seen := map[string]bool{}
	for _, b := range bases {
		r, err := newReplica(b, f.ceiling)
		if err != nil {
			return err
		}
		name := r.url.String()
		if seen[name] {
			continue
		}
		seen[name] = true
		if o := old[name]; o != nil {
			r = o
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return errors.New("no base URL")
	}
	f.list = list
	return nil
}

func (f *fleet) read() error {
	st, err := os.Stat(f.file)
	if err != nil {
		return fmt.Errorf("base URLs: %w", err)
	}
	raw, err := os.ReadFile(f.file)
	if err != nil {
		return fmt.Errorf("base URLs: %w", err)
	}
	var bases []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			bases = append(bases, line)
		}
	}
	if err := f.set(bases); err != nil {
		return fmt.Errorf("base URLs of %s: %w", f.file, err)
	}
	f.stamp, f.size, f.looked = st.ModTime(), st.Size(), f.now()
	return nil
}

// replicas is the present list. A file that changed is read again, at most once a
// second; one that cannot be read leaves the list as it was.
func (f *fleet) replicas() []*replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != "" && f.now().Sub(f.looked) >= time.Second {
		f.looked = f.now()
		if st, err := os.Stat(f.file); err == nil && (!st.ModTime().Equal(f.stamp) || st.Size() != f.size) {
			_ = f.read()
		}
	}
	return f.list
}

// Route keeps one rollout on one replica. It is not safe for concurrent use.
type Route struct {
	name string
	at   *replica
}

// NewRoute returns the route of a rollout's key, or of its group's.
func NewRoute(name string) *Route { return &Route{name: name} }

// Replica is the base URL in use; empty before the first request.
func (r *Route) Replica() string {
	if r.at == nil {
		return ""
	}
	return r.at.base
}

// pick returns the route's replica; why is not empty when it moved.
func (f *fleet) pick(r *Route, avoid *replica) (at *replica, why string) {
	list, now := f.replicas(), f.now()
	present := slices.Contains(list, r.at)
	if present && r.at != avoid {
		return r.at, ""
	}
	var best *replica
	var most uint64
	for _, c := range list {
		s := score(c.url.String(), r.name) >> 2
		if c.up(now) {
			s |= 1 << 63 // any that is up before any that is down
		}
		if c != avoid {
			s |= 1 << 62
		}
		if best == nil || s > most {
			best, most = c, s
		}
	}
	was := r.at
	r.at = best
	switch {
	case was == nil || was == best:
		return best, ""
	case !present:
		return best, fmt.Sprintf("replica %s to %s: it left the list", was.base, best.base)
	}
	return best, fmt.Sprintf("replica %s to %s", was.base, best.base)
}

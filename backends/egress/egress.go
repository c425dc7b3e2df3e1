// Package egress is the way to the network of boxes that have none: an HTTP proxy on
// this side that connects to what an allow-list names, and to nothing else.
//
// A driver lets the box make a listening socket on its own loopback, takes the socket
// over and hands it to [Proxy.Serve]. So the proxy answers inside the box and runs
// outside of it, the box keeps a network without any route, and no other box can reach it.
// CONNECT and plain requests in absolute form are understood, one for each connection.
//
// Everything is refused that a [Config] does not name. A name is resolved here, once, and
// the addresses found are those that are dialled, so that an answer which changes leads
// nowhere. Addresses of this machine, of private and of special networks are refused even
// behind a name that is listed, unless they are listed themselves, as addresses. What a
// box may keep open, send and ask for in a second is bounded.
//
// What passes through a CONNECT is not looked into.
//
// A [Proxy] and the proxies of boxes are safe for concurrent use.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Config is the key `egress` in the section of a back-end. The zero value lets nothing out.
type Config struct {
	Allow       []string      `yaml:"allow"`       // NAME, *.SUFFIX, *, ADDRESS or NETWORK, each with :PORT or :*; else ports 80 and 443
	Connections int           `yaml:"connections"` // at once of a box; 0 means 64
	Rate        int           `yaml:"rate"`        // connections of a box in a second; 0 means 100
	Bytes       int64         `yaml:"bytes"`       // of a box in all, both directions; 0 means 16 GiB
	Idle        time.Duration `yaml:"idle"`        // after which a silent connection is closed; 0 means 2 minutes
	Log         string        `yaml:"log"`         // file to which outcomes are appended as JSON lines; empty: none
}

// On reports whether boxes get a proxy.
func (c Config) On() bool { return len(c.Allow) > 0 }

// maxTotal bounds the connections of all boxes of a back-end.
const maxTotal = 4096

// Port is where the proxy answers on the loopback of a box.
const Port = 3128

// Env are the variables by which programs of a box find the proxy. Some look at one
// spelling only.
func Env() map[string]string {
	at, not := "http://127.0.0.1:"+strconv.Itoa(Port), "localhost,127.0.0.1,::1"
	return map[string]string{"HTTP_PROXY": at, "http_proxy": at, "HTTPS_PROXY": at, "https_proxy": at, "NO_PROXY": not, "no_proxy": not}
}

// Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error)
}

// Outside is the network beyond the proxy. The zero value is this machine's.
type Outside struct {
	Resolver Resolver                                                       // nil: net.DefaultResolver
	Dial     func(ctx context.Context, to netip.AddrPort) (net.Conn, error) // nil: TCP
	Own      func() ([]netip.Addr, error)                                   // addresses of this machine; nil: those of its interfaces
}

// Proxy is the policy of one back-end and the books of all its boxes.
type Proxy struct {
	conf  Config
	key   string  // of the configuration, for texts
	list  string  // where the narrowest list is written, for texts
	rules []rules // all of which must let out to a target
	out   Outside
	log   *log
	books *books
}

// books are what a proxy counts, with those that lie within it.
type books struct {
	total   atomic.Int64 // connections under way
	allowed atomic.Int64
	refused atomic.Int64
}

// Check objects to values that cannot work.
func (c Config) Check() error {
	_, _, err := c.complete()
	return err
}

// complete fills in defaults and reads the list.
func (c Config) complete() (Config, rules, error) {
	c.Connections, c.Rate = cmp.Or(c.Connections, 64), cmp.Or(c.Rate, 100)
	c.Bytes, c.Idle = cmp.Or(c.Bytes, 16<<30), cmp.Or(c.Idle, 2*time.Minute)
	switch {
	case c.Connections < 1 || c.Connections > maxTotal:
		return c, nil, fmt.Errorf("egress.connections: %d is not from 1 to %d", c.Connections, maxTotal)
	case c.Rate < 1:
		return c, nil, fmt.Errorf("egress.rate: %d is negative", c.Rate)
	case c.Bytes < 1:
		return c, nil, fmt.Errorf("egress.bytes: %d is negative", c.Bytes)
	case c.Idle < time.Second:
		return c, nil, fmt.Errorf("egress.idle: %v is less than a second", c.Idle)
	}
	list, err := parseRules(c.Allow)
	if err != nil {
		err = fmt.Errorf("egress.allow: %w", err)
	}
	return c, list, err
}

// New returns a proxy whose configuration is under key, for texts: backends.NAME.egress.
func New(c Config, key string, o Outside) (*Proxy, error) {
	c, list, err := c.complete()
	if err != nil {
		return nil, err
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	if o.Own == nil {
		o.Own = ownAddresses
	}
	p := &Proxy{conf: c, key: key, list: key + ".allow", rules: []rules{list}, out: o, books: new(books)}
	p.log, err = openLog(c.Log)
	if err != nil {
		return nil, fmt.Errorf("egress.log: %w", err)
	}
	return p, nil
}

// Of is the way out of a box: that of all boxes of a back-end, p, which may be nil, or no
// more than a task asks for ([backends.Spec.Network]). nil is no way out.
func Of(p *Proxy, network []string) (*Proxy, error) {
	switch {
	case p == nil || network == nil:
		return p, nil
	case len(network) == 0:
		return nil, nil
	}
	return p.Within(network)
}

// Within returns the proxy for boxes that may reach no more than list names, every entry of
// which must lie within one of the proxy's own. It shares everything else with p.
func (p *Proxy) Within(list []string) (*Proxy, error) {
	narrower, err := parseRules(list)
	if err != nil {
		return nil, err
	}
	for i, r := range narrower {
		for _, all := range p.rules {
			if !slices.ContainsFunc(all, r.within) {
				return nil, fmt.Errorf("entry %q is in no entry of %s, which a task can only narrow", list[i], p.list)
			}
		}
	}
	q := *p
	q.list, q.rules = "hermes.network of the task's row", append(slices.Clone(p.rules), narrower)
	return &q, nil
}

// every reports whether all lists say yes.
func (p *Proxy) every(yes func(rules) bool) bool {
	return !slices.ContainsFunc(p.rules, func(r rules) bool { return !yes(r) })
}

// Counts tells how many connections were let out and how many refused.
func (p *Proxy) Counts() (allowed, refused int64) {
	return p.books.allowed.Load(), p.books.refused.Load()
}

// Close ends the log. All boxes' proxies must be closed.
func (p *Proxy) Close() error { return p.log.close() }

// refusal is an answer of the proxy to the box instead of a connection.
type refusal struct {
	status int
	reason string // one word, for the log and the header
	text   string // for whoever reads the output of the command
}

func (r *refusal) Error() string { return r.text }

// The times that an upstream gets.
const (
	dialTime   = 15 * time.Second // resolving and connecting
	answerTime = 5 * time.Minute  // until the head of an answer to a plain request
)

// admit decides on a target and resolves it. It returns the addresses that may be dialled.
func (p *Proxy) admit(ctx context.Context, host string, port uint16) ([]netip.AddrPort, error) {
	target := net.JoinHostPort(host, strconv.Itoa(int(port)))
	unlisted := &refusal{403, "not-listed", fmt.Sprintf("this box may not connect to %s: it is not in the allow-list. To allow it, add %q to %s and start again", target, target, p.list)}
	own, err := p.out.Own()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		if a.Zone() != "" || !p.every(func(r rules) bool { return r.address(a, port, own) }) {
			return nil, unlisted
		}
		return []netip.AddrPort{netip.AddrPortFrom(a, port)}, nil
	}
	name, err := cleanName(host)
	if err != nil {
		return nil, &refusal{400, "bad-name", fmt.Sprintf("%q is not the name of a host: %v", host, err)}
	}
	if !p.every(func(r rules) bool { return r.name(name, port) }) {
		return nil, unlisted
	}
	found, err := p.out.Resolver.LookupNetIP(ctx, "ip", absolute(name))
	if err != nil {
		return nil, &refusal{502, "unresolved", fmt.Sprintf("the name %s could not be resolved on the host: %v", name, dnsCause(err))}
	}
	var to []netip.AddrPort
	for _, a := range found {
		a = a.Unmap()
		if a.Zone() == "" && p.every(func(r rules) bool { return r.behind(a, port, own) }) {
			to = append(to, netip.AddrPortFrom(a, port))
		}
	}
	if len(to) == 0 {
		return nil, &refusal{403, "private", fmt.Sprintf("this box may not connect to %s: the name is in the allow-list, but leads to %v, an address of the host or of a private network. To allow it, add the address, with its port, to %s too", target, found, p.list)}
	}
	return to, nil
}

// dnsCause leaves out which server was asked.
func dnsCause(err error) string {
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return d.Err
	}
	return err.Error()
}

// dial connects to the first of the addresses that answers.
func (p *Proxy) dial(ctx context.Context, to []netip.AddrPort) (net.Conn, error) {
	var errs []error
	for _, a := range to {
		c, err := p.out.Dial(ctx, a)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, &refusal{502, "unreachable", fmt.Sprintf("the target does not answer: %v", errors.Join(errs...))}
}

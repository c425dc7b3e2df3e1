package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hermes/backends/namespace"
	"hermes/backends/ssh/station"
)

// Config is the section `backends.ssh` of a run file. Host is needed.
type Config struct {
	Host       string           `yaml:"host"`        // [USER@]NAME[:PORT]
	Jump       []string         `yaml:"jump"`        // hosts to go through, the nearest first, in the same form
	Keys       []string         `yaml:"keys"`        // private key files; empty: those of ~/.ssh with the usual names
	Passphrase string           `yaml:"passphrase"`  // file with the passphrase of the keys
	Agent      string           `yaml:"agent"`       // socket of an agent; empty: SSH_AUTH_SOCK; off: none
	KnownHosts []string         `yaml:"known-hosts"` // empty: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
	HostKey    string           `yaml:"host-key"`    // strict (the default), accept-new, or the fingerprint SHA256:… of the last host
	Isolation  string           `yaml:"isolation"`   // namespace (the default) or none
	Namespace  namespace.Config `yaml:"namespace"`   // of the boxes there; images are directories of that host
	Dir        string           `yaml:"dir"`         // on the host; empty: ~/.cache/hermes there
	Slotd      string           `yaml:"slotd"`       // static program for the host's architecture; empty: the one inside of hermes
	Timeout    time.Duration    `yaml:"timeout"`     // of a connection being made; 0: 20 s
	KeepAlive  time.Duration    `yaml:"keepalive"`   // between signs of life; 0: 15 s; after three without answer the connection is given up
	Reconnect  time.Duration    `yaml:"reconnect"`   // how long a lost connection is tried again before boxes are lost; 0: 20 s
	Linger     time.Duration    `yaml:"linger"`      // how long boxes live without a sign of life of ours; 0: 2 m
}

// Surroundings are what comes from outside of the run file.
type Surroundings struct {
	User  string // of hosts that name none
	Home  string // where ~ is
	Agent string // SSH_AUTH_SOCK
}

// How host keys are judged.
const (
	strict    = "strict"
	acceptNew = "accept-new"
	pinned    = "SHA256:"
)

// off switches something off.
const off = "off"

// hop is one host on the way.
type hop struct{ user, addr string }

func (h hop) String() string { return h.user + "@" + h.addr }

// plain are the characters of a folder on the host.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// complete fills in defaults and refuses what cannot work.
func (c Config) complete(at Surroundings) (Config, []hop, error) {
	if c.Host == "" {
		return c, nil, errors.New("no host is named (host: in the section backends.ssh)")
	}
	var route []hop
	for _, text := range append(append([]string{}, c.Jump...), c.Host) {
		h, err := parseHop(text, at.User)
		if err != nil {
			return c, nil, err
		}
		route = append(route, h)
	}
	c.HostKey = cmp.Or(c.HostKey, strict)
	if c.HostKey != strict && c.HostKey != acceptNew && !strings.HasPrefix(c.HostKey, pinned) {
		return c, nil, fmt.Errorf("host-key %q: none of %s, %s, %s…", c.HostKey, strict, acceptNew, pinned)
	}
	c.Isolation = cmp.Or(c.Isolation, station.Isolated)
	if c.Isolation != station.Isolated && c.Isolation != station.Plain {
		return c, nil, fmt.Errorf("isolation %q: neither %s nor %s", c.Isolation, station.Isolated, station.Plain)
	}
	if c.Dir != "" && (!path.IsAbs(c.Dir) || path.Clean(c.Dir) != c.Dir || !plain.MatchString(c.Dir)) {
		return c, nil, fmt.Errorf("dir %q: not a clean absolute path of plain characters", c.Dir)
	}
	for _, d := range []time.Duration{c.Timeout, c.KeepAlive, c.Reconnect, c.Linger} {
		if d < 0 {
			return c, nil, fmt.Errorf("a time of %v is negative", d)
		}
	}
	c.Timeout, c.KeepAlive = cmp.Or(c.Timeout, 20*time.Second), cmp.Or(c.KeepAlive, 15*time.Second)
	c.Reconnect, c.Linger = cmp.Or(c.Reconnect, 20*time.Second), cmp.Or(c.Linger, 2*time.Minute)
	if c.Linger < c.KeepAlive+c.Reconnect {
		return c, nil, fmt.Errorf("linger %v is shorter than keepalive and reconnect (%v): boxes would end under a slow network", c.Linger, c.KeepAlive+c.Reconnect)
	}
	c.Agent = cmp.Or(c.Agent, at.Agent)
	c.files(at)
	return c, route, nil
}

// files fills in names of files and puts the home directory for ~.
func (c *Config) files(at Surroundings) {
	home := func(name string) string {
		if rest, ok := strings.CutPrefix(name, "~/"); ok && at.Home != "" {
			return filepath.Join(at.Home, rest)
		}
		return name
	}
	each := func(list []string) []string {
		out := make([]string, len(list))
		for i, name := range list {
			out[i] = home(name)
		}
		return out
	}
	if len(c.KnownHosts) == 0 {
		c.KnownHosts = []string{"~/.ssh/known_hosts"}
		if _, err := os.Stat("/etc/ssh/ssh_known_hosts"); err == nil {
			c.KnownHosts = append(c.KnownHosts, "/etc/ssh/ssh_known_hosts")
		}
	}
	c.KnownHosts, c.Keys = each(c.KnownHosts), each(c.Keys)
	c.Passphrase, c.Agent, c.Slotd = home(c.Passphrase), home(c.Agent), home(c.Slotd)
	if len(c.Keys) > 0 || at.Home == "" {
		return
	}
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		if name := filepath.Join(at.Home, ".ssh", name); exists(name) {
			c.Keys = append(c.Keys, name)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// parseHop reads [USER@]NAME[:PORT]; an IPv6 address with a port is in brackets.
func parseHop(text, user string) (hop, error) {
	h := hop{user: user, addr: text}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		h.user, h.addr = text[:i], text[i+1:]
	}
	name, port, err := net.SplitHostPort(h.addr)
	if err != nil {
		name, port = strings.Trim(h.addr, "[]"), "22"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || name == "" || strings.ContainsAny(name, " /\t\n") {
		return h, fmt.Errorf("host %q: want [USER@]NAME[:PORT]", text)
	}
	if h.user == "" {
		return h, fmt.Errorf("host %q: no user is named, and this process has no USER", text)
	}
	h.addr = net.JoinHostPort(name, port)
	return h, nil
}

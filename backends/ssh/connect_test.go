package ssh_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"hermes/backends"
	hssh "hermes/backends/ssh"
	"hermes/backends/ssh/station"
)

func lost(err error) bool { return errors.Is(err, backends.ErrLost) }

// echo is what a box says that works.
func echo(t *testing.T, x backends.Sandbox) {
	t.Helper()
	if r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"echo", "hello"}}); err != nil || string(r.Stdout) != "hello\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

// places are the servers that a test runs against.
func places(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("in process", func(t *testing.T) { test(t, serve(t)) })
	t.Run("sshd", func(t *testing.T) { test(t, real(t)) })
}

// refused demands that nothing is opened and that the error says all of these.
func refused(t *testing.T, c hssh.Config, says ...string) {
	t.Helper()
	b, err := hssh.Open(t.Context(), c, hssh.Surroundings{User: "tester"})
	if err == nil {
		b.Close(context.Background())
		t.Fatal("it was opened")
	}
	if !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("not ErrUnavailable: %v", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v\ndoes not say %q", err, s)
		}
	}
}

func TestKeys(t *testing.T) {
	alongside(t)
	places(t, func(t *testing.T, at place) {
		c := at.config(t)
		c.Isolation = station.Plain
		wrong := filepath.Join(t.TempDir(), "wrong")
		newKey(t, wrong)
		bad := c
		bad.Keys = []string{wrong}
		refused(t, bad, "takes none of our keys", "authorized_keys", wrong)
		bad.Keys = []string{wrong + ".none"}
		refused(t, bad, wrong+".none")
		bad.Keys = nil
		refused(t, bad, "there is no key and no agent")
		bad.Agent = filepath.Join(t.TempDir(), "none.sock")
		refused(t, bad, "ask the agent at "+bad.Agent)

		secret := filepath.Join(t.TempDir(), "secret")
		raw, err := os.ReadFile(at.key)
		if err != nil {
			t.Fatal(err)
		}
		key, err := xssh.ParseRawPrivateKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		locked := lockKey(t, key, "open sesame")
		bad.Agent, bad.Keys = "off", []string{locked}
		refused(t, bad, "it has a passphrase", "passphrase:")
		if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		good := bad
		good.Passphrase = secret
		echo(t, openBox(t, open(t, good)))

		good = c
		good.Keys, good.Agent = nil, runAgent(t, key)
		echo(t, openBox(t, open(t, good)))
	})
}

func lockKey(t *testing.T, key any, pass string) string {
	t.Helper()
	block, err := xssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(pass))
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, block)
}

// runAgent is an agent with one key, at a socket.
func runAgent(t *testing.T, key any) string {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ha")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { agent.ServeAgent(ring, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestHostKeys(t *testing.T) {
	alongside(t)
	places(t, func(t *testing.T, at place) {
		c := at.config(t)
		c.Isolation = station.Plain
		dir := t.TempDir()
		other := newKey(t, filepath.Join(dir, "other"))
		_, port, _ := net.SplitHostPort(at.addr)

		bad := c
		bad.KnownHosts = []string{filepath.Join(dir, "empty")}
		refused(t, bad, "is not known", "SHA256:", "ssh-keyscan -p "+port+" 127.0.0.1 >> "+bad.KnownHosts[0])

		bad.KnownHosts = []string{filepath.Join(dir, "changed")}
		line := knownhosts.Line([]string{knownhosts.Normalize(at.addr)}, other.PublicKey())
		if err := os.WriteFile(bad.KnownHosts[0], []byte("# a comment\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, bad, "knows another key", bad.KnownHosts[0]+" line 2")
		bad.HostKey = "accept-new" // takes new hosts, never changed ones
		refused(t, bad, "knows another key")

		bad.HostKey = xssh.FingerprintSHA256(other.PublicKey())
		refused(t, bad, "not "+bad.HostKey)

		good := c
		good.HostKey, good.KnownHosts = "accept-new", []string{filepath.Join(dir, "new")}
		echo(t, openBox(t, open(t, good)))
		good.HostKey = "strict"
		echo(t, openBox(t, open(t, good)))

		raw, err := os.ReadFile(good.KnownHosts[0])
		if err != nil {
			t.Fatal(err)
		}
		_, _, key, _, _, err := xssh.ParseKnownHosts(raw)
		if err != nil {
			t.Fatal(err)
		}
		good.HostKey, good.KnownHosts = xssh.FingerprintSHA256(key), []string{filepath.Join(dir, "none")}
		echo(t, openBox(t, open(t, good)))
	})
}

func TestJump(t *testing.T) {
	alongside(t)
	places(t, func(t *testing.T, at place) {
		gate := serve(t)
		c := at.config(t)
		c.Isolation = station.Plain
		c.Jump = []string{gate.user + "@" + gate.addr}
		c.Keys = append(c.Keys, gate.key)
		c.KnownHosts = append(c.KnownHosts, gate.known)
		b := open(t, c)
		echo(t, openBox(t, b))
		gate.srv.Cut() // the gate breaks: the way is made again
		echo(t, openBox(t, b))

		bad := c
		bad.KnownHosts = c.KnownHosts[:1]
		refused(t, bad, "connect to "+gate.user+"@"+gate.addr, "is not known")
	})
}

// TestHostDown: when a host that was away in mid-run is back in time, its commands are
// joined again.
func TestHostDown(t *testing.T) {
	alongside(t)
	at := serve(t)
	c := at.config(t)
	c.Isolation, c.Reconnect = station.Plain, time.Minute
	b := open(t, c)
	x := openBox(t, b)
	done := make(chan error, 1)
	go func() {
		r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo $$ > pids; while [ ! -e go ]; do sleep 0.05; done; echo once"})
		if err == nil && string(r.Stdout) != "once\n" {
			err = errors.New("output " + string(r.Stdout))
		}
		done <- err
	}()
	until(t, "start of the command", func() bool { _, err := x.ReadFile(t.Context(), "pids", 0); return err == nil })
	at.srv.Stop()
	at.back(t)
	// A call on the connection that is just breaking is not repeated by itself.
	until(t, "a file written after the break", func() bool { return x.WriteFile(t.Context(), "go", nil, 0) == nil })
	if err := <-done; err != nil {
		t.Errorf("a command while the host was away for a moment: %v", err)
	}
}

// TestHostGone: a host that stays away loses its boxes, and is used again when it is back.
func TestHostGone(t *testing.T) {
	alongside(t)
	at := serve(t)
	c := at.config(t)
	c.Isolation, c.Reconnect = station.Plain, 300*time.Millisecond
	b := open(t, c)
	x := openBox(t, b)
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo $$ > pids; exec sleep 1000"})
		done <- err
	}()
	until(t, "start of the command", func() bool { _, err := x.ReadFile(t.Context(), "pids", 0); return err == nil })
	at.srv.Stop()
	if err := <-done; !lost(err) {
		t.Errorf("a command on a host that is gone: %v", err)
	}
	if _, err := b.Open(t.Context(), backends.Spec{}); !lost(err) {
		t.Errorf("a box on a host that is gone: %v", err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	at.back(t)
	until(t, "a box on the host that is back", func() bool {
		y, err := b.Open(t.Context(), backends.Spec{})
		if err == nil {
			echo(t, y)
		}
		return err == nil
	})
}

func TestRefusals(t *testing.T) {
	alongside(t)
	at := serve(t)
	good := at.config(t)
	for name, tt := range map[string]struct {
		change func(*hssh.Config)
		says   string
	}{
		"no host":         {func(c *hssh.Config) { c.Host = "" }, "no host is named"},
		"bad port":        {func(c *hssh.Config) { c.Host = "a:99999" }, `host "a:99999"`},
		"bad policy":      {func(c *hssh.Config) { c.HostKey = "no" }, `host-key "no"`},
		"bad isolation":   {func(c *hssh.Config) { c.Isolation = "vm" }, `isolation "vm"`},
		"relative folder": {func(c *hssh.Config) { c.Dir = "x/y" }, `dir "x/y"`},
		"short linger":    {func(c *hssh.Config) { c.Linger = time.Second }, "linger 1s is shorter"},
		"no server there": {func(c *hssh.Config) { c.Host = "u@127.0.0.1:1" }, "connect to u@127.0.0.1:1"},
		"no program":      {func(c *hssh.Config) { c.Slotd = at.key }, at.key},
		"long folder":     {func(c *hssh.Config) { c.Dir += "/" + strings.Repeat("d", 100) }, "name a shorter dir"},
		"not a folder":    {func(c *hssh.Config) { c.Dir = "/dev/null/x" }, "bring slotd to the host"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			refused(t, c, tt.says)
		})
	}
	t.Run("no forwarding", func(t *testing.T) {
		at := serve(t)
		at.srv.Prohibit("direct-streamlocal@openssh.com")
		c := at.config(t)
		c.KeepAlive = time.Second
		c.Reconnect = time.Second
		c.Linger = 2 * time.Second // no request to end can reach the station
		c.Isolation = station.Plain
		refused(t, c, "AllowStreamLocalForwarding")
		until(t, "end of the station", func() bool {
			left, _ := filepath.Glob(filepath.Join(c.Dir, "s", "*"))
			return len(left) == 0
		})
	})
}

// BenchmarkExec is a warm command on an open connection.
func BenchmarkExec(b *testing.B) {
	for name, at := range map[string]func(testing.TB) place{"in-process": serve, "sshd": real} {
		for _, isolation := range []string{station.Isolated, station.Plain} {
			b.Run(name+"/"+isolation, func(b *testing.B) {
				c := at(b).config(b)
				c.Isolation = isolation
				x := openBox(b, open(b, c))
				for b.Loop() {
					if _, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"true"}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

package ssh_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	hssh "hermes/backends/ssh"
)

// place is a host that tests can log in to, in this process or a real sshd.
type place struct {
	addr  string
	user  string
	key   string // file
	known string // file
	srv   *server
}

func (p place) config(t testing.TB) hssh.Config {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hs") // sockets need short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(dir, "s", "*")); len(left) > 0 {
			t.Errorf("left on the host: %v", left)
		}
		os.RemoveAll(dir)
	})
	return hssh.Config{Host: p.user + "@" + p.addr, Keys: []string{p.key}, Agent: "off", KnownHosts: []string{p.known}, Slotd: own, Dir: dir}
}

// server is an ssh server in this process: sessions that run commands, connections to
// sockets and ports, and keys of its own.
type server struct {
	conf *xssh.ServerConfig
	l    net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool
	down bool
	no   string // kind of channel that is prohibited
	all  sync.WaitGroup
}

// newKey makes a key and writes it to a file.
func newKey(t testing.TB, name string) xssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writePEM writes a key to a file of its own.
func writePEM(t testing.TB, block *pem.Block) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serve starts a server that lets the holder of one key in.
func serve(t testing.TB) place {
	t.Helper()
	dir := t.TempDir()
	client, host := newKey(t, filepath.Join(dir, "key")), newKey(t, filepath.Join(dir, "host"))
	conf := &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if string(key.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, errors.New("not this key")
		}
		return nil, nil
	}}
	conf.AddHostKey(host)
	s := &server{conf: conf, open: map[net.Conn]bool{}}
	s.listen(t, "127.0.0.1:0")
	t.Cleanup(s.stop)
	p := place{addr: s.l.Addr().String(), user: "tester", key: filepath.Join(dir, "key"), known: filepath.Join(dir, "known_hosts"), srv: s}
	if err := os.WriteFile(p.known, []byte(knownhosts.Line([]string{p.addr}, host.PublicKey())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *server) listen(t testing.TB, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.l, s.down = l, false
	s.mu.Unlock()
	s.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			down := s.down
			s.open[c] = true
			s.mu.Unlock()
			if down {
				c.Close()
				continue
			}
			s.all.Go(func() { s.serve(c) })
		}
	})
}

// cut breaks every connection; new ones are taken.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	clear(s.open)
}

// stop ends the server, as a host does that goes down.
func (s *server) stop() {
	s.mu.Lock()
	s.down = true
	s.l.Close()
	s.mu.Unlock()
	s.cut()
	s.all.Wait()
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	conn, channels, requests, err := xssh.NewServerConn(c, s.conf)
	if err != nil {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	life, end := context.WithCancel(context.Background())
	defer end()
	defer conn.Close()
	all.Go(func() {
		for r := range requests {
			r.Reply(false, nil) // also to signs of life: any answer is one
		}
	})
	for n := range channels {
		if n.ChannelType() == s.no {
			n.Reject(xssh.Prohibited, "administratively prohibited")
			continue
		}
		switch n.ChannelType() {
		case "session":
			all.Go(func() { session(life, n) })
		case "direct-streamlocal@openssh.com":
			var m struct {
				Path, Unused string
				Port         uint32
			}
			xssh.Unmarshal(n.ExtraData(), &m)
			all.Go(func() { direct(life, n, "unix", m.Path) })
		case "direct-tcpip":
			var m struct {
				Host     string
				Port     uint32
				From     string
				FromPort uint32
			}
			xssh.Unmarshal(n.ExtraData(), &m)
			all.Go(func() { direct(life, n, "tcp", net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port)))) })
		default:
			n.Reject(xssh.UnknownChannelType, "unknown")
		}
	}
}

// direct joins a channel and a connection of the host.
func direct(life context.Context, n xssh.NewChannel, network, addr string) {
	c, err := net.Dial(network, addr)
	if err != nil {
		n.Reject(xssh.ConnectionFailed, "open failed")
		return
	}
	defer c.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	stop := context.AfterFunc(life, func() { c.Close() })
	defer stop()
	go xssh.DiscardRequests(requests)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(c, ch)
		c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	io.Copy(ch, c)
	ch.CloseWrite()
	ch.Close()
	<-done
}

// session runs one command, which outlives a broken connection as with sshd.
func session(life context.Context, n xssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		var m struct{ Command string }
		if r.Type != "exec" || xssh.Unmarshal(r.Payload, &m) != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		c := exec.Command("/bin/sh", "-c", m.Command)
		in, err := c.StdinPipe()
		if err != nil {
			return
		}
		c.Stdout, c.Stderr = ch, ch.Stderr()
		var status struct{ Code uint32 }
		if err := c.Start(); err != nil {
			return
		}
		go func() { io.Copy(in, ch); in.Close() }()
		if err := c.Wait(); err != nil {
			status.Code = uint32(max(c.ProcessState.ExitCode(), 1))
		}
		ch.SendRequest("exit-status", false, xssh.Marshal(&status))
		return
	}
}

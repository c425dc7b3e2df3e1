// Package sshtest is an ssh server in this process, for tests of what logs in to hosts. It has
// its own keys, sessions that run commands as this process's user, and connections to sockets
// and ports. It can go away and come back.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Server is a host that the holder of one key can log in to, as any user. It is safe for
// concurrent use.
type Server struct {
	Addr  string // host:port
	Key   string // file with the key that it takes
	Known string // file with its own key, as ssh keeps those of known hosts

	conf *xssh.ServerConfig
	mu   sync.Mutex
	l    net.Listener
	open map[net.Conn]bool
	down bool
	no   string // kind of channel that is prohibited
	all  sync.WaitGroup
}

// New starts a server on the loopback whose files lie in dir. Stop ends it.
func New(dir string) (*Server, error) {
	s := &Server{Key: filepath.Join(dir, "key"), Known: filepath.Join(dir, "known_hosts"), open: map[net.Conn]bool{}}
	client, err := NewKey(s.Key)
	if err != nil {
		return nil, err
	}
	host, err := NewKey(filepath.Join(dir, "host"))
	if err != nil {
		return nil, err
	}
	s.conf = &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if string(key.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, errors.New("not this key")
		}
		return nil, nil
	}}
	s.conf.AddHostKey(host)
	if err := s.Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.Addr = s.l.Addr().String()
	line := knownhosts.Line([]string{s.Addr}, host.PublicKey()) + "\n"
	if err := os.WriteFile(s.Known, []byte(line), 0o600); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// NewKey makes a key and writes it to a file.
func NewKey(name string) (xssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return xssh.NewSignerFromKey(key)
}

// Listen brings a server that was stopped back.
func (s *Server) Listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
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
	return nil
}

// Prohibit refuses channels of a kind.
func (s *Server) Prohibit(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.no = kind
}

func (s *Server) prohibits(kind string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.no == kind
}

// Cut breaks every connection; new ones are taken.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	clear(s.open)
}

// Stop ends the server, as a host does that goes down.
func (s *Server) Stop() {
	s.mu.Lock()
	s.down = true
	s.l.Close()
	s.mu.Unlock()
	s.Cut()
	s.all.Wait()
}

func (s *Server) serve(c net.Conn) {
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
		if s.prohibits(n.ChannelType()) {
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

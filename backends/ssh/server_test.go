package ssh_test

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	hssh "hermes/backends/ssh"
	"hermes/backends/ssh/sshtest"
)

// place is a host that tests can log in to, in this process or a real sshd.
type place struct {
	addr  string
	user  string
	key   string // file
	known string // file
	srv   *sshtest.Server
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

// newKey makes a key and writes it to a file.
func newKey(t testing.TB, name string) xssh.Signer {
	t.Helper()
	s, err := sshtest.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writePEM writes a key to a file.
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
	s, err := sshtest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return place{addr: s.Addr, user: "tester", key: s.Key, known: s.Known, srv: s}
}

// back brings a server back that was stopped.
func (p place) back(t testing.TB) {
	t.Helper()
	if err := p.srv.Listen(p.addr); err != nil {
		t.Fatal(err)
	}
}

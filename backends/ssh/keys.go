package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"
)

// keyring is what we show to hosts.
type keyring struct {
	files []ssh.Signer
	agent string // socket; empty: none
	names []string
}

// readKeys reads the key files. Those that were not named but found may need a
// passphrase that we do not have: then the agent may hold them.
func readKeys(c Config, named bool) (*keyring, error) {
	k := &keyring{}
	if c.Agent != "" && c.Agent != off {
		k.agent = c.Agent
		k.names = append(k.names, "agent "+c.Agent)
	}
	var pass []byte
	if c.Passphrase != "" {
		raw, err := os.ReadFile(c.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("passphrase: %w", err)
		}
		pass = bytes.TrimRight(raw, "\r\n")
	}
	for _, name := range c.Keys {
		s, err := readKey(name, pass)
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) && (!named || k.agent != "") {
			continue
		}
		if errors.As(err, &locked) {
			err = errors.New("it has a passphrase: name the file with it (passphrase:), or use an agent")
		}
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		k.files, k.names = append(k.files, s...), append(k.names, name)
	}
	if len(k.names) == 0 {
		return nil, errors.New("there is no key and no agent: name a key (keys:) or start an agent (SSH_AUTH_SOCK)")
	}
	return k, nil
}

// readKey reads a private key, and the certificate beside it.
func readKey(name string, pass []byte) ([]ssh.Signer, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(raw)
	if errors.As(err, new(*ssh.PassphraseMissingError)) && pass != nil {
		s, err = ssh.ParsePrivateKeyWithPassphrase(raw, pass)
	}
	if err != nil {
		return nil, err
	}
	raw, err = os.ReadFile(name + "-cert.pub")
	if err != nil {
		return []ssh.Signer{s}, nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		return nil, fmt.Errorf("its certificate: %w", err)
	}
	cert, ok := pub.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("%s-cert.pub is not a certificate", name)
	}
	certified, err := ssh.NewCertSigner(cert, s)
	if err != nil {
		return nil, fmt.Errorf("its certificate: %w", err)
	}
	return []ssh.Signer{certified, s}, nil
}

// signers are all keys, files first: hosts stop asking after a few. The library tries
// one method of a kind, so both come from here. forget lets the agent go.
func (k *keyring) signers(ctx context.Context) (all []ssh.Signer, forget func(), err error) {
	all, forget = append(all, k.files...), func() {}
	if k.agent == "" {
		return all, forget, nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", k.agent)
	if err == nil {
		var more []ssh.Signer
		more, err = agent.NewClient(conn).Signers()
		if err != nil {
			conn.Close()
		} else {
			all, forget = append(all, more...), func() { conn.Close() }
		}
	}
	if len(all) == 0 && err != nil {
		return nil, forget, fmt.Errorf("ask the agent at %s: %w", k.agent, err)
	}
	return all, forget, nil
}

// errHostKey says that a host is not, or may not be, the one that was meant.
var errHostKey = errors.New("host key not accepted")

// judge is the check of the key of one host, and the kinds of keys to ask it for.
func (c Config) judge(h hop, last bool) (ssh.HostKeyCallback, []string, error) {
	if strings.HasPrefix(c.HostKey, pinned) && last {
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if got := ssh.FingerprintSHA256(key); got != c.HostKey {
				return fmt.Errorf("%w: %s shows %s %s, not %s (host-key: of the section backends.ssh)", errHostKey, h.addr, key.Type(), got, c.HostKey)
			}
			return nil
		}, nil, nil
	}
	var files []string
	for _, name := range c.KnownHosts {
		if exists(name) {
			files = append(files, name)
		}
	}
	known, err := knownhosts.New(files...)
	if err != nil {
		return nil, nil, fmt.Errorf("known hosts: %w", err)
	}
	// Asked for another kind of key than those we know, an honest host looks changed.
	var kinds []string
	var unknown *knownhosts.KeyError
	if err := known(h.addr, &net.TCPAddr{}, noKey{}); errors.As(err, &unknown) {
		for _, w := range unknown.Want {
			switch t := w.Key.Type(); t {
			case ssh.KeyAlgoRSA:
				kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			default:
				kinds = append(kinds, t)
			}
		}
	}
	return func(name string, from net.Addr, key ssh.PublicKey) error {
		return c.verdict(known(h.addr, &net.TCPAddr{}, key), h, key)
	}, kinds, nil
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errHostKey }

// verdict turns the answer of the known hosts into advice.
func (c Config) verdict(err error, h hop, key ssh.PublicKey) error {
	var k *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	print := key.Type() + " " + ssh.FingerprintSHA256(key)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return fmt.Errorf("%w: %s shows %s, which is revoked in %s", errHostKey, h.addr, print, revoked.Revoked.Filename)
	case errors.As(err, &k) && len(k.Want) > 0:
		return fmt.Errorf("%w: %s shows %s, but %s line %d knows another key: either the host was set up again, or somebody is in between; ask its administrator before you remove that line",
			errHostKey, h.addr, print, k.Want[0].Filename, k.Want[0].Line)
	case errors.As(err, &k) && c.HostKey == acceptNew:
		return addHost(c.KnownHosts[0], h.addr, key)
	case errors.As(err, &k):
		name, port, _ := net.SplitHostPort(h.addr)
		return fmt.Errorf("%w: %s is not known; it shows %s: compare that with what its administrator says, then add it by `ssh-keyscan -p %s %s >> %s`, or set host-key: %s",
			errHostKey, h.addr, print, port, name, c.KnownHosts[0], ssh.FingerprintSHA256(key))
	}
	return fmt.Errorf("%w: %s: %w", errHostKey, h.addr, err)
}

// addHost writes a new host down. Several of us may do so at once.
func addHost(name, addr string, key ssh.PublicKey) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("add host %s: %w", addr, err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("add host %s: lock %s: %w", addr, name, err)
	}
	_, err = f.WriteString(knownhosts.Line([]string{knownhosts.Normalize(addr)}, key) + "\n")
	return err
}

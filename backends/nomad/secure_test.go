//go:build linux

package nomad_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends/nomad"
)

// rights is the policy that docs/nomad.md promises to be enough.
const rights = `namespace "boxes" {
 capabilities = ["submit-job", "read-job", "list-jobs", "scale-job", "alloc-lifecycle"]
}
node { policy = "read" }
`

// admit makes a namespace and a token that may do in it what docs/nomad.md says and no more.
func (a *agents) admit() {
	a.t.Helper()
	var first *api.ACLToken
	a.await("the first token", func() (ok bool) {
		var err error
		first, _, err = a.web.ACLTokens().Bootstrap(nil)
		return err == nil
	})
	a.web.SetSecretID(first.SecretID)
	if _, err := a.web.Namespaces().Register(&api.Namespace{Name: "boxes"}, nil); err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.web.ACLPolicies().Upsert(&api.ACLPolicy{Name: "hermes", Rules: rights}, nil); err != nil {
		a.t.Fatal(err)
	}
	token, _, err := a.web.ACLTokens().Create(&api.ACLToken{Name: "hermes", Type: "client", Policies: []string{"hermes"}}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	a.conf.Namespace, a.conf.TokenFile = "boxes", filepath.Join(a.dir, "token")
	if err := os.WriteFile(a.conf.TokenFile, []byte(token.SecretID+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// certificates makes an authority and one certificate for everybody.
func certificates(t testing.TB, dir string) nomad.TLS {
	t.Helper()
	make := func(of, by *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	root, signer := make(authority, authority, nil)
	one := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"server.global.nomad", "client.global.nomad", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, key := make(one, authority, signer)
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return nomad.TLS{
		CACert:     write("ca.pem", "CERTIFICATE", root),
		ClientCert: write("cert.pem", "CERTIFICATE", der),
		ClientKey:  write("key.pem", "EC PRIVATE KEY", secret),
	}
}

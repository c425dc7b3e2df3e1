//go:build linux

package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/nomad"
)

// TestRealAgent runs the contract on slots of real agents.
func TestRealAgent(t *testing.T) {
	t.Run("raw_exec", func(t *testing.T) {
		contract(t, realAgents(t, agentOptions{}), nomad.Config{Driver: "raw_exec", Max: 12}, backendtest.Options{Skips: rawSkips()})
	})
	t.Run("raw_exec with ACLs and TLS", func(t *testing.T) {
		contract(t, realAgents(t, agentOptions{secure: true}), nomad.Config{Driver: "raw_exec", Max: 12}, backendtest.Options{Skips: rawSkips()})
	})
	t.Run("docker", func(t *testing.T) {
		engine := os.Getenv("HERMES_TEST_DOCKER")
		if engine == "" {
			t.Skip("HERMES_TEST_DOCKER names no engine")
		}
		contract(t, realAgents(t, agentOptions{docker: engine}), nomad.Config{Driver: "docker", Image: "hermes-test:python", Memory: 64 << 20, Max: 12},
			backendtest.Options{Enforces: []string{"memory", "processes"}, Skips: dockerSkips()})
	})
}

// dockerSkips are the rows that docker slots cannot be asked.
func dockerSkips() []int { return []int{46, 52, 53, 55, 57, 59, 67, 68, 69, 71, 72, 73, 74, 75, 84} }

// contract runs the suite on a cluster.
func contract(t *testing.T, f *agents, c nomad.Config, o backendtest.Options) {
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	b := open(t, f, c)
	o.Secret, o.Cut = "not-for-boxes", nomad.Cut
	o.Kill = func(x backends.Sandbox) error { return f.Stop(nomad.Alloc(x)) }
	backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, o)
}

// TestRealAccess: tokens and certificates are looked at before anything is made.
func TestRealAccess(t *testing.T) {
	a := realAgents(t, agentOptions{secure: true})
	token := a.conf.TokenFile
	a.conf.TokenFile = ""
	if _, err := start(t, a, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "ACL token") {
		t.Errorf("without a token: %v", err)
	}
	a.conf.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(a.conf.TokenFile, []byte("7e57ab1e-0000-4000-8000-000000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, a, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "ACL token") {
		t.Errorf("with an unknown token: %v", err)
	}
	a.conf.TokenFile, a.conf.TLS.ClientCert, a.conf.TLS.ClientKey = token, "", ""
	if _, err := start(t, a, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	a.conf.TLS.CACert = ""
	if _, err := start(t, a, nomad.Config{}); !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("without the authority: %v", err)
	}
}

// TestRealClientRestart: boxes do not feel the death and the return of the agent on their
// node, and it takes them up again.
func TestRealClientRestart(t *testing.T) {
	a := realAgents(t, agentOptions{})
	b := open(t, a, nomad.Config{Max: 1})
	x := box(t, b, backends.Spec{})
	done := make(chan string, 1)
	go func() {
		r, err := x.Exec(context.WithoutCancel(t.Context()),
			backends.Cmd{Shell: "echo > begun; while [ ! -e go ]; do sleep 0.05; done; echo once >> runs; cat runs"})
		done <- fmt.Sprintf("%s%v", r.Stdout, err)
	}()
	started(t, x, "begun")
	name := a.name(a.NodeOf(nomad.Alloc(x)))
	a.kill(name)
	if got := sh(t, x, "echo still here"); got != "still here" {
		t.Errorf("without the agent: %q", got)
	}
	a.start(name)
	if err := a.status(a.nodes[name], api.NodeStatusReady); err != nil {
		t.Fatal(err)
	}
	if err := x.WriteFile(deadline(t), "go", nil, 0o644); err != nil {
		t.Error(err)
	}
	select {
	case got := <-done:
		if got != "once\n<nil>" {
			t.Errorf("the command: %q", got)
		}
	case <-deadline(t).Done():
		t.Fatal("the command does not end")
	}
	was := nomad.Alloc(x)
	shut(t, x)
	x = box(t, b, backends.Spec{})
	if nomad.Alloc(x) != was {
		t.Error("the slot was replaced")
	}
	// The agent that took it up can end it.
	if err := a.Stop(was); err != nil {
		t.Error(err)
	}
}

// TestRealPull: an image that cannot be had fails at once, and the next one works.
func TestRealPull(t *testing.T) {
	engine := os.Getenv("HERMES_TEST_DOCKER")
	if engine == "" {
		t.Skip("HERMES_TEST_DOCKER names no engine")
	}
	b := open(t, realAgents(t, agentOptions{docker: engine}), nomad.Config{Driver: "docker", Image: "hermes-test:python", Max: 2})
	if _, err := b.Open(deadline(t), backends.Spec{Image: "127.0.0.1:9/none:1"}); !errors.Is(err, backends.ErrImage) || !errors.Is(err, nomad.ErrPull) {
		t.Errorf("an image that cannot be pulled: %v", err)
	}
	x := box(t, b, backends.Spec{Limits: backends.Limits{Memory: 64 << 20}})
	if got := sh(t, x, "python3 -c 'print(6*7)'; id -u"); got != "42\n0" {
		t.Errorf("says %q", got)
	}
	// What ends the server in a container is the kernel alone, over its memory.
	if err := outcome(t, busyExec(t, x, "kill -9 1; kill -9 $PPID; echo alive")); err != nil {
		t.Errorf("signals to the server of a container: %v", err)
	}
	shut(t, x)
}

package nomad_test

import (
	"os"
	"testing"

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

package ledger_test

import (
	"testing"

	"hermes/configs"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/rollout/play/playtest"
	"ledger"
)

// TestContract: the oracle earns 1, doing nothing 0, repeats agree, and the sum is hidden.
func TestContract(t *testing.T) {
	env, err := ledger.Kind.Open(t.Context(), configs.Section{})
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []envs.Split{envs.Train, envs.Eval} {
		envtest.Run(t, env, playtest.New(t), envtest.Options{Split: split, Rows: 2, Repeats: 3})
	}
}

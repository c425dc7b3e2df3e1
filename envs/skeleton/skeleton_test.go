package skeleton_test

import (
	"testing"

	"hermes/configs"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/rollout/play"

	"hermes/envs/skeleton"
)

func TestContract(t *testing.T) {
	env, err := skeleton.Kind.Open(t.Context(), configs.Section{})
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range []envs.Split{envs.Train, envs.Eval} {
		envtest.Run(t, env, play.Player{}, envtest.Options{Split: split}, "hidden")
	}
}

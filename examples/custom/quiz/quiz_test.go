package quiz_test

import (
	"testing"

	"custom/quiz"
	"hermes/configs"
	"hermes/envs/envtest"
	"hermes/rollout/play/playtest"
)

func TestContract(t *testing.T) {
	env, err := quiz.Kind.Open(t.Context(), configs.Section{})
	if err != nil {
		t.Fatal(err)
	}
	envtest.Run(t, env, playtest.New(t), envtest.Options{}, "hidden")
}

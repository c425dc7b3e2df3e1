package envs_test

import (
	"errors"
	"fmt"
	"testing"

	"hermes/envs"
)

// Only a reward that is none, where the control has nothing in its place, was copied.
func TestCopied(t *testing.T) {
	none := func(r envs.RewardLine) error {
		return fmt.Errorf("score: %w", &envs.NoVerdict{What: "x", Reward: r})
	}
	for _, tt := range []struct {
		with, without error
		want          bool
	}{
		{none(envs.RewardWritten), none(envs.RewardBlank), true},
		{none(envs.RewardWritten), none(envs.RewardWritten), false},
		{none(envs.RewardWritten), none(0), false},
		{none(envs.RewardBlank), none(envs.RewardBlank), false},
		{none(0), none(envs.RewardBlank), false},
		{errors.New("x"), none(envs.RewardBlank), false},
		{none(envs.RewardWritten), nil, false},
	} {
		if got := envs.Copied(tt.with, tt.without); got != tt.want {
			t.Errorf("%#v, %#v: copied is %v", tt.with, tt.without, got)
		}
	}
}

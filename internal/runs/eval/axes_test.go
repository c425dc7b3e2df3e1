package eval_test

import (
	"slices"
	"testing"

	"hermes/configs"
	"hermes/internal/runs/eval"
)

// TestAxes: what a suite may name is what can be set.
func TestAxes(t *testing.T) {
	if got := eval.AxisNames(); !slices.Equal(got, configs.Axes()) {
		t.Errorf("axes %q, a suite may name %q", got, configs.Axes())
	}
}

package modal_test

import (
	"testing"

	"hermes/backends"
	"hermes/backends/modal/modaltest"
	"hermes/rollout/tool/box/boxtest"
)

// TestTools: the box tools give the same results as everywhere.
func TestTools(t *testing.T) {
	t.Parallel()
	_, b := quick(t, modaltest.Options{})
	boxtest.Run(t, func(t *testing.T) backends.Sandbox { return boxOf(t, b, backends.Spec{}) })
}

//go:build linux

package singularity_test

import (
	"testing"

	"hermes/backends"
	"hermes/rollout/tool/box/boxtest"
)

// TestTools: the same calls of the same tools give the same results as on every driver.
func TestTools(t *testing.T) {
	c, at := standIn(t)
	b := open(t, c, at)
	boxtest.Run(t, func(t *testing.T) backends.Sandbox { return boxOf(t, b, backends.Spec{}) })
}

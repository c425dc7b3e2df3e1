//go:build linux

package namespace_test

import (
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/egress"
	"hermes/backends/namespace"
)

func TestContract(t *testing.T) {
	good, bad := listed(t)
	contract(t, namespace.Config{Resets: true, Egress: egress.Config{Allow: []string{good}}}, backendtest.Options{Allowed: good, Refused: bad})
}

// TestContractOfPlainBoxes runs what needs neither resets nor a network on boxes whose
// commands pid 1 starts, until slotd takes its place.
func TestContractOfPlainBoxes(t *testing.T) {
	contract(t, namespace.Config{}, backendtest.Options{Skips: []int{53, 74, 75}})
}

func contract(t *testing.T, c namespace.Config, o backendtest.Options) {
	t.Parallel()
	b := open(t, c)
	o.Enforces = []string{"memory", "processes", "disk"}
	o.Secret, o.Heavy = "not-for-boxes", *long
	o.Kill = func(x backends.Sandbox) error { return b.Kill(x.ID()) }
	// 57 there is no token, 59 keys, 66 slotd's own test cuts connections, 67 engines,
	// 68 and 69 stand in limit_test.go, 71-73 leases, 84 snapshots.
	o.Skips = append(o.Skips, 57, 59, 66, 67, 68, 69, 71, 72, 73, 84)
	backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, o)
}

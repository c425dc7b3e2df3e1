package docker_test

import (
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
)

// leftRows are the rows that the suite asks of no back-end, or of none without a pool:
// 57 there is no token on a passage, 59 keys, 66 slotd's own test cuts connections, 67 to
// 69 stand in kill_test.go, 71-73 leases.
func leftRows(more ...int) []int {
	return append([]int{53, 59, 66, 67, 68, 69, 71, 72, 73}, more...)
}

func TestContract(t *testing.T) {
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	for _, tt := range []struct {
		name  string
		conf  docker.Config
		skips []int
	}{
		{"bind", docker.Config{Inject: "bind", Home: "/home/box"}, leftRows(46, 55, 57)}, // the storage driver cannot limit disk
		{"copy", docker.Config{Inject: "copy", Home: "/home/box"}, leftRows(46, 55, 57)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, tt.conf)
			backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
				Enforces: []string{"memory", "processes"},
				Secret:   "not-for-boxes",
				Kill:     func(x backends.Sandbox) error { return b.Kill(x.ID()) },
				Skips:    tt.skips,
			})
		})
	}
}

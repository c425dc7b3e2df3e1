//go:build linux

package docker_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
	"hermes/backends/egress"
)

// leftRows are the rows that the suite asks of no back-end, or of none without a pool:
// 57 there is no token on a control socket, 59 keys, 66 slotd's own test cuts connections, 67 to
// 69 stand in kill_test.go, 71-73 leases.
func leftRows(more ...int) []int {
	return append([]int{59, 66, 67, 68, 69, 71, 72, 73}, more...)
}

func TestContract(t *testing.T) {
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hermes")) })
	one, two := httptest.NewServer(answer), httptest.NewServer(answer)
	defer one.Close()
	defer two.Close()
	good, bad := one.Listener.Addr().String(), two.Listener.Addr().String()
	for _, tt := range []struct {
		name  string
		conf  docker.Config
		skips []int
	}{
		{"bind", docker.Config{Inject: "bind", Home: "/home/box", Egress: egress.Config{Allow: []string{good}}}, leftRows(46, 55, 57)}, // the storage driver cannot limit disk
		{"copy", docker.Config{Inject: "copy"}, leftRows(46, 53, 55, 57)},                                                              // home is the image's, with files in it
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, tt.conf)
			backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
				Enforces: []string{"memory", "processes"},
				Secret:   "not-for-boxes",
				Heavy:    *long,
				Shallow:  true,
				Allowed:  good,
				Refused:  bad,
				Kill:     func(x backends.Sandbox) error { return b.Kill(x.ID()) },
				Skips:    tt.skips,
			})
		})
	}
}

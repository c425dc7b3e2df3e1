package ssh_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest"
)

// TestAttribution: the error of a box that ended blames the right side, whether a command
// killed what it could, the connection was cut, or the host's sshd went away.
func TestAttribution(t *testing.T) {
	alongside(t)
	count := 12
	if *long {
		count = 400
	}
	at := serve(t)
	c := at.config(t)
	c.KeepAlive = 3 * time.Second
	c.Reconnect = 3 * time.Second // a connection that was cut is made again in a tenth of that
	c.Linger = 7 * time.Second
	b := open(t, c)
	away := false // sshd comes back before the next box
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			if away {
				at.back(t)
				away = false
			}
			var x backends.Sandbox
			until(t, "a box on a host that may have been away", func() (ok bool) {
				var err error
				x, err = b.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 32 << 20, Processes: 24, Disk: 8 << 20}})
				return err == nil
			})
			return x, nil
		},
		Count: count,
		Model: []string{
			"head -c 200M /dev/zero | tail -n 1 | wc -c",
			"dd if=/dev/zero of=big bs=1M count=500",
			"kill -9 1; kill -9 -1",
			"kill -TERM 1; kill -TERM -1",
		},
		Ours: []backendtest.Death{
			{Name: "the connection is cut", End: func(backends.Sandbox) error { at.srv.Cut(); return nil }, Survives: true},
			{Name: "sshd is gone", End: func(backends.Sandbox) error { at.srv.Stop(); away = true; return nil }},
		},
	})
	if away {
		at.back(t)
	}
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	until(t, "end of stations that were left", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.Dir, "s", "*"))
		return len(left) == 0
	})
}

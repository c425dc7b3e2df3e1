package build_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hermes/backends"
	"hermes/backends/docker"
	"hermes/backends/local"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	"hermes/rollout/tool/box/boxtest"
)

func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == wire.Name {
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestToolsOnEveryDriver: the same calls of the same tools, execute_code among them, give
// the same results wherever the box lives.
func TestToolsOnEveryDriver(t *testing.T) {
	for _, d := range []struct {
		name string
		open func(t *testing.T) (backends.Backend, error)
	}{
		{"local", func(t *testing.T) (backends.Backend, error) {
			return local.New(local.Config{Dir: t.TempDir(), Path: os.Getenv("PATH")})
		}},
		{"namespace", func(t *testing.T) (backends.Backend, error) { return driver.Open(t.Context(), namespace.Config{}) }},
		{"docker", func(t *testing.T) (backends.Backend, error) {
			host := os.Getenv("HERMES_TEST_DOCKER")
			if host == "" {
				t.Skip("no engine: HERMES_TEST_DOCKER is not set (make engine)")
			}
			return docker.Open(t.Context(), docker.Config{Host: host, Image: "hermes-test:python"}, docker.Surroundings{})
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			b, err := d.open(t)
			if errors.Is(err, backends.ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			boxtest.Run(t, func(t *testing.T) backends.Sandbox {
				x, err := b.Open(t.Context(), backends.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				return x
			})
		})
	}
}

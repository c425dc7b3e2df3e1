package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/client"
)

// TestSilentServer: a server that takes calls and answers none is lost, each call within its
// bound.
func TestSilentServer(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"health": func(ctx context.Context, c *client.Client) error { _, err := c.Health(ctx); return err },
		"info":   func(ctx context.Context, c *client.Client) error { _, err := c.Info(ctx); return err },
		"exec": func(ctx context.Context, c *client.Client) error {
			_, err := c.Exec(ctx, backends.Cmd{Shell: "true"})
			return err
		},
		"read": func(ctx context.Context, c *client.Client) error { _, err := c.ReadFile(ctx, "f", 0); return err },
		"write": func(ctx context.Context, c *client.Client) error {
			return c.WriteFile(ctx, "f", make([]byte, 1<<20), 0)
		},
		"stat": func(ctx context.Context, c *client.Client) error { _, err := c.Stat(ctx, "f"); return err },
		"list": func(ctx context.Context, c *client.Client) error { _, err := c.List(ctx, "f", 0); return err },
		"search": func(ctx context.Context, c *client.Client) error {
			_, err := c.Search(ctx, backends.Query{Root: "."})
			return err
		},
		"copy in": func(ctx context.Context, c *client.Client) error {
			return c.CopyIn(ctx, "d", bytes.NewReader(make([]byte, 1<<20)))
		},
		"copy out": func(ctx context.Context, c *client.Client) error { return c.CopyOut(ctx, "d", io.Discard) },
		"start": func(ctx context.Context, c *client.Client) error {
			_, err := c.Start(ctx, backends.Cmd{Shell: "true"}, backends.StartOptions{})
			return err
		},
		"reset": func(ctx context.Context, c *client.Client) error {
			_, err := c.Reset(ctx, backends.ResetFiles)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client.New(func(context.Context) (net.Conn, error) {
					ours, theirs := net.Pipe()
					t.Cleanup(func() { theirs.Close() })
					go func() { // it reads what it gets and says nothing
						io.Copy(io.Discard, theirs)
					}()
					return ours, nil
				}, client.Options{})
				defer c.Close(context.Background())
				began := time.Now()
				err := call(t.Context(), c)
				if took := time.Since(began); !errors.Is(err, backends.ErrLost) || took > 6*time.Minute {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

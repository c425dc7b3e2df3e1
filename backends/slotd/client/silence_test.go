package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/wire"
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

// TestSilent: silence is reported a second after the last sign of life, and not while the server
// shows that it works.
func TestSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration // between two signs of life
		want  []time.Duration
	}{
		"it works":   {900 * time.Millisecond, nil},
		"it is late": {2500 * time.Millisecond, []time.Duration{1000 * time.Millisecond, 3500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
						return
					}
					io.WriteString(theirs, okHead)
					time.Sleep(tt.every)
					wire.WriteFrame(theirs, wire.FrameBeat, nil)
					time.Sleep(tt.every)
					wire.WriteFrame(theirs, wire.FrameExit, []byte("{}"))
				}()
				began := time.Now()
				var got []time.Duration
				c := client.New(func(context.Context) (net.Conn, error) { return ours, nil }, client.Options{Silent: func() bool {
					got = append(got, time.Since(began))
					return false
				}})
				defer c.Close(context.Background())
				if _, err := c.Exec(t.Context(), backends.Cmd{Shell: "true"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !slices.Equal(got, tt.want) {
					t.Errorf("silence was reported after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

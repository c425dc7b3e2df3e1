package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/client"
)

// closer is a server whose first connection answers one call and is closed when the next has
// arrived, as one is that was idle for too long. All others answer every call.
type closer struct {
	mu    sync.Mutex
	calls []string
}

func (s *closer) dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

func (s *closer) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, q.Body)
		s.mu.Lock()
		s.calls = append(s.calls, q.Method+" "+q.URL.Path)
		leave := len(s.calls) == 2
		s.mu.Unlock()
		if leave {
			return
		}
		io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	}
}

// TestConnectionClosedMeanwhile: writing a file, which may be done twice, is tried again on
// another connection. What may not be done twice is lost.
func TestConnectionClosedMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		call func(context.Context, *client.Client) error
		err  error
		seen []string // after the first call
	}{
		"write a file": {func(ctx context.Context, c *client.Client) error { return c.WriteFile(ctx, "f", []byte("x"), 0) },
			nil, []string{"PUT /v1/file", "PUT /v1/file"}},
		"reset": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Reset(ctx, backends.ResetFiles)
			return err
		},
			backends.ErrLost, []string{"POST /v1/reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &closer{}
			c := client.New(s.dial, client.Options{})
			defer c.Close(context.Background())
			if err := c.WriteFile(t.Context(), "first", nil, 0); err != nil {
				t.Fatal(err)
			}
			if err := tt.call(t.Context(), c); !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(s.calls[1:], tt.seen) {
				t.Errorf("the server saw %q, want %q", s.calls[1:], tt.seen)
			}
		})
	}
}

//go:build linux

package station

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"

	"hermes/backends"
	"hermes/backends/namespace"
)

// passer is a box of the station as package namespace needs it. The client of the box is on the
// machine that logged in: the station passes its connections on and calls nothing but health.
type passer struct{ server namespace.Server }

var _ namespace.Client = (*passer)(nil)

func newPasser(s namespace.Server) namespace.Client { return &passer{s} }

// ID implements [backends.Sandbox].
func (p *passer) ID() string { return p.server.ID }

// Dial implements [namespace.Client].
func (p *passer) Dial(ctx context.Context) (net.Conn, error) {
	p.server.Called("dial")
	return p.server.Dial(ctx)
}

// Close implements [backends.Sandbox].
func (p *passer) Close(ctx context.Context) error { return p.server.Close(ctx) }

// Exec implements [backends.Sandbox].
func (p *passer) Exec(context.Context, backends.Cmd) (backends.Result, error) {
	return backends.Result{}, p.refuse("exec")
}

// ReadFile implements [backends.Sandbox].
func (p *passer) ReadFile(context.Context, string, int64) ([]byte, error) {
	return nil, p.refuse("read")
}

// WriteFile implements [backends.Sandbox].
func (p *passer) WriteFile(context.Context, string, []byte, fs.FileMode) error {
	return p.refuse("write")
}

// Join implements [namespace.Client].
func (p *passer) Join(context.Context, string) (backends.Result, error) {
	return backends.Result{}, p.refuse("exec")
}

// Lost implements [namespace.Client].
func (p *passer) Lost(ctx context.Context, what string, err error) error {
	if why := p.server.Cause(ctx); why != nil {
		return fmt.Errorf("%s: %w (%w)", what, why, err)
	}
	return fmt.Errorf("%s: %w: %w", what, backends.ErrLost, err)
}

func (p *passer) refuse(what string) error {
	return fmt.Errorf("%s in box %s: the station only passes connections on: %w", what, p.ID(), errors.ErrUnsupported)
}

// health asks the server of the box for a sign of life. Its error says why there was none.
func (p *passer) health(ctx context.Context) error {
	calls := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) }}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://slotd/v1/health", nil)
	if err != nil {
		return err
	}
	answer, err := calls.Do(r)
	if err != nil {
		return p.Lost(ctx, "health", err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode != http.StatusOK {
		return p.Lost(ctx, "health", fmt.Errorf("slotd answers %d", answer.StatusCode))
	}
	return nil
}

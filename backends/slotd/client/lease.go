package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// ErrTaken says that a slot is leased to somebody else; ErrRetired that it is dirty or
// drained and will not be leased again.
var (
	ErrTaken   = errors.New("slot is taken")
	ErrRetired = errors.New("slot is not leased any more")
)

// Lease asks for the box; c has the administrator's token. The calls of another client,
// with the lease's token, are then about the box.
func (c *Client) Lease(ctx context.Context, q wire.LeaseRequest) (l wire.Lease, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return l, err
	}
	err = c.admin(ctx, "lease", "POST", "leases", nil, body, &l)
	return l, err
}

// Renew makes a lease last ttl from now.
func (c *Client) Renew(ctx context.Context, id string, ttl time.Duration) (l wire.Lease, err error) {
	err = c.admin(ctx, "renew lease "+id, "POST", "leases/"+id+"/renew", url.Values{"ttl_ns": {strconv.FormatInt(int64(ttl), 10)}}, nil, &l)
	return l, err
}

// GiveBack ends a lease and waits until the box is wiped.
func (c *Client) GiveBack(ctx context.Context, id string, level backends.Level) (done backends.Cleaned, err error) {
	err = c.admin(ctx, "give back lease "+id, "DELETE", "leases/"+id, url.Values{"reset": {string(level)}}, nil, &done)
	return done, err
}

// Drain ends the server as soon as no lease is in force.
func (c *Client) Drain(ctx context.Context) error {
	return c.admin(ctx, "drain", "POST", "drain", nil, nil, nil)
}

// admin sends a call of the administrator's and reads its answer, if it has one.
func (c *Client) admin(ctx context.Context, what, method, path string, q url.Values, body []byte, into any) error {
	var refused error
	err := c.call(ctx, what, method, path, q, bytes.NewReader(body), "", func(r *http.Response) error {
		if into == nil {
			return nil
		}
		return readJSON(into)(r)
	})
	if s, ok := errors.AsType[*statusError](err); ok {
		switch s.code {
		case http.StatusConflict:
			refused = ErrTaken
		case http.StatusServiceUnavailable:
			refused = ErrRetired
		}
	}
	if refused != nil {
		return fmt.Errorf("%s: %w", what, refused)
	}
	return err
}

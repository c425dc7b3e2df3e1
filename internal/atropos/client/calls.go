package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// ErrWait says that the server does not let environments register yet: no trainer has
// asked it for a batch.
var ErrWait = errors.New("no trainer has asked for a batch yet")

// Info is what the trainer wants. Both are -1 before a trainer has registered.
type Info struct {
	BatchSize   int `json:"batch_size"`    // sequences
	MaxTokenLen int `json:"max_token_len"` // 0 or less: no limit
}

// Registration is an environment that asks to be let in.
type Registration struct {
	MaxTokenLength int      `json:"max_token_length"`
	DesiredName    string   `json:"desired_name"`
	Weight         float64  `json:"weight"`
	GroupSize      int      `json:"group_size"`
	MinAllocation  *float64 `json:"min_batch_allocation"`
	// Instance lets hermes' own server give an environment that is started again the place
	// that it had; Atropos' server ignores it.
	Instance string `json:"instance,omitempty"`
}

// Registered is how a server knows an environment.
type Registered struct {
	Status             string `json:"status"`
	EnvID              int    `json:"env_id"`
	Name               string `json:"wandb_name"`
	CheckpointDir      string `json:"checkpoint_dir"`
	StartingStep       int64  `json:"starting_step"` // of the trainer, now
	CheckpointInterval int    `json:"checkpoint_interval"`
	NumSteps           int64  `json:"num_steps"`
}

// Status is the state of the queue as an environment sees it.
type Status struct {
	Step        int64   `json:"current_step"`
	Queue       int     `json:"queue_size"` // groups of this environment's size
	Unallocated float64 `json:"unallocated_fraction"`
	Own         int     `json:"self_queue_size"` // groups
	MaxGroup    int     `json:"max_group_size"`
	Weight      float64 `json:"env_weight"`
}

// Info asks for batch size and longest sequence.
func (c *Client) Info(ctx context.Context) (i Info, err error) {
	i = Info{BatchSize: -1, MaxTokenLen: -1}
	return i, c.ask(ctx, http.MethodGet, "/info", nil, &i)
}

// Register asks once to be let in; ErrWait says to ask again later. It is repeated after
// failures that cannot have registered anything, for each registration is another
// environment with its own weight.
func (c *Client) Register(ctx context.Context, r Registration) (out Registered, err error) {
	err = c.ask(ctx, http.MethodPost, "/register-env", r, &out)
	switch {
	case err != nil:
		return out, err
	case out.Status == "wait for trainer to start":
		return out, ErrWait
	case out.Status != "success":
		return out, fmt.Errorf("POST /register-env: the server answered the status %q", out.Status)
	}
	return out, nil
}

// Disconnect says that an environment is gone: its weight no longer counts. What it has
// posted stays.
func (c *Client) Disconnect(ctx context.Context, env int) error {
	return c.once(ctx, http.MethodPost, "/disconnect-env", fmt.Appendf(nil, `{"env_id":%d}`, env), nil)
}

// Status asks for the state of the queue: a GET with a body, as the protocol has it.
func (c *Client) Status(ctx context.Context, env int) (s Status, err error) {
	return s, c.ask(ctx, http.MethodGet, "/status-env", map[string]int{"env_id": env}, &s)
}

// Posted is what a server did with a group: received, or buffered until other groups of
// the environment complete its size.
type Posted struct {
	Status   string `json:"status"`
	Buffered int    `json:"buffer_size"` // sequences
	Again    bool   `json:"-"`           // the server had taken a post with this key before, and did not take this one
}

// Post sends one group, a JSON object, once. key is its name, the same each time that it is
// sent; Atropos' own server ignores it.
func (c *Client) Post(ctx context.Context, key string, group []byte) (p Posted, err error) {
	if err := c.named(ctx, key, http.MethodPost, "/scored_data", group, &p); err != nil {
		return p, err
	}
	if p.Status != "received" && p.Status != "buffered" {
		return p, &Error{Op: "POST /scored_data", Fate: Unknown, Err: fmt.Errorf("the server answered the status %q", p.Status)}
	}
	return p, nil
}

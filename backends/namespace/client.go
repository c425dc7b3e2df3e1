package namespace

import (
	"context"
	"net"

	"hermes/backends"
)

// Client calls the server in one box. That of package driver has all abilities of a box; the
// program on a host that is reached by ssh passes connections on and needs none.
type Client interface {
	backends.Sandbox
	// Dial opens a connection to the server, for a program that passes it on.
	Dial(ctx context.Context) (net.Conn, error)
	// Join waits for the end of a command that the server has adopted, and ends it where the
	// caller does not wait.
	Join(ctx context.Context, exec string) (backends.Result, error)
	// Lost says whose doing it is that the box does not answer, with err as the sign of it.
	Lost(ctx context.Context, what string, err error) error
}

// Server is what a [Client] is made with: the server in one box.
type Server struct {
	ID     string // of the box
	Dial   func(ctx context.Context) (net.Conn, error)
	Close  func(ctx context.Context) error // removes the box
	Cause  func(ctx context.Context) error // why the box went away; nil: its loss
	Called func(path string)               // is to be called with the path of each call
	Silent func() (did bool)               // is to be called while the server is silent
}

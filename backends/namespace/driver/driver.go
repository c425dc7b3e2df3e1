// Package driver is the back-end of namespaces as hermes uses it: package namespace with the
// client of package client, by which hermes calls the server in a box. The program in a box makes
// boxes too, on a host that is reached by ssh, and has no client.
package driver

import (
	"context"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/slotd/client"
)

// Kind returns the registry value of the back-end.
func Kind() backends.Kind {
	return backends.NewKind(namespace.Name, func(ctx context.Context, c namespace.Config) (backends.Backend, error) {
		return Open(ctx, c)
	})
}

// Open is [namespace.Open] with a client for each box.
func Open(ctx context.Context, c namespace.Config) (*namespace.Backend, error) {
	return namespace.Open(ctx, c, newClient)
}

func newClient(s namespace.Server) namespace.Client {
	return client.New(s.Dial, client.Options{ID: s.ID, Close: s.Close, Cause: s.Cause, Called: s.Called, Silent: s.Silent})
}

package backends_test

import (
	"errors"
	"strings"
	"testing"

	"hermes/backends"
)

// reach is a back-end of which only its network is asked.
type reach struct {
	backends.Backend
	network string
}

func (r reach) Traits() backends.Traits { return backends.Traits{Name: "some", Network: r.network} }

// narrower lets single boxes out to a.example alone.
type narrower struct{ reach }

func (narrower) Narrow(network []string) error {
	for _, n := range network {
		if n != "a.example" {
			return errors.New(n + " is not listed")
		}
	}
	return nil
}

// TestNarrow: what cannot be kept from a box is refused, and nothing is opened to it.
func TestNarrow(t *testing.T) {
	none, some := []string{}, []string{"a.example"}
	for _, tt := range []struct {
		back  backends.Backend
		asks  []string
		fault string
	}{
		{reach{network: "host"}, nil, ""},
		{reach{network: "host"}, none, `have the network "host", which is not narrowed`},
		{reach{network: "host"}, some, `have the network "host", which is not narrowed`},
		{reach{network: "none"}, none, ""},
		{reach{network: "none"}, some, "a task cannot open one"},
		{reach{network: "allow-list"}, none, "which is not narrowed"},
		{narrower{reach{network: "allow-list"}}, none, ""},
		{narrower{reach{network: "allow-list"}}, some, ""},
		{narrower{reach{network: "allow-list"}}, []string{"a.example", "b.example"}, "b.example is not listed"},
		{narrower{reach{network: "none"}}, some, "a task cannot open one"},
		{narrower{reach{network: "mine"}}, none, `have the network "mine"`},
	} {
		err := backends.Narrow(tt.back, tt.asks)
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault) ||
			!errors.Is(err, backends.ErrUnavailable)) {
			t.Errorf("%s asked for %q: %v, want %q", tt.back.Traits().Network, tt.asks, err, tt.fault)
		}
	}
}

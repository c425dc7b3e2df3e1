package backends

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Narrow reports why boxes of b cannot have a [Spec.Network], or nil. What cannot be kept
// from a box is an error and never left out: a task that asked for no network gets none, or
// no box. Callers ask before Open, since drivers without an allow-list do not look at it.
func Narrow(b Backend, network []string) error {
	t := b.Traits()
	n, narrows := b.(Narrower)
	wanted := cmp.Or(strings.Join(network, ", "), "none")
	switch {
	case network == nil, len(network) == 0 && t.Network == "none":
		return nil
	case narrows && t.Network == "allow-list":
		err := n.Narrow(network)
		if err == nil || errors.Is(err, ErrUnavailable) { // the error of a pool is complete: it is that of its driver
			return err
		}
		return fmt.Errorf("network %s: %w: %w", wanted, ErrUnavailable, err)
	case t.Network == "none":
		return fmt.Errorf("network %s: %w: boxes of %s have no network, and a task cannot open one", wanted, ErrUnavailable, t.Name)
	}
	return fmt.Errorf("network %s: %w: boxes of %s have the network %q, which is not narrowed for single tasks", wanted, ErrUnavailable, t.Name, t.Network)
}

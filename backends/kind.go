package backends

import (
	"bytes"
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Kind makes back-ends of one kind from their section of the run file.
type Kind struct {
	Name  string
	check func(section *yaml.Node) error
	open  func(ctx context.Context, section *yaml.Node) (Backend, error)
}

// NewKind builds a Kind from the config struct C of a driver (yaml tags; its zero
// value must be usable). Unknown keys of the section are refused, and what the method
// `Check() error` of C, where there is one, objects to.
func NewKind[C any](name string, open func(context.Context, C) (Backend, error)) Kind {
	return Kind{
		Name:  name,
		check: func(n *yaml.Node) error { _, err := decode[C](name, n); return err },
		open: func(ctx context.Context, n *yaml.Node) (Backend, error) {
			c, err := decode[C](name, n)
			if err != nil {
				return nil, err
			}
			return open(ctx, c)
		},
	}
}

// decode reads a section into the config struct of a driver.
func decode[C any](name string, section *yaml.Node) (c C, err error) {
	if section == nil || section.IsZero() {
		return c, nil
	}
	err = strict(section, &c)
	if own, ok := any(c).(interface{ Check() error }); ok && err == nil {
		err = own.Check()
	}
	if err != nil {
		err = fmt.Errorf("backends.%s: %w", name, err)
	}
	return c, err
}

// Check reads the section without opening anything.
func (k Kind) Check(section *yaml.Node) error { return k.check(section) }

// Open makes a back-end from its section; nil is the zero config.
func (k Kind) Open(ctx context.Context, section *yaml.Node) (Backend, error) {
	return k.open(ctx, section)
}

// strict decodes a node and refuses keys that the struct does not have.
func strict(n *yaml.Node, into any) error {
	raw, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	return d.Decode(into)
}

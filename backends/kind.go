package backends

import (
	"context"

	"hermes/configs"
)

// Kind makes back-ends of one kind from their section of the run file.
type Kind struct {
	Name  string
	check func(configs.Section) error
	open  func(context.Context, configs.Section) (Backend, error)
}

// NewKind builds a Kind from the config struct C of a driver (yaml tags; its zero
// value must be usable). Unknown keys of the section are refused, and what the method
// `Check() error` of C, where there is one, objects to.
func NewKind[C any](name string, open func(context.Context, C) (Backend, error)) Kind {
	return Kind{
		Name:  name,
		check: func(s configs.Section) error { _, err := decode[C](s); return err },
		open: func(ctx context.Context, s configs.Section) (Backend, error) {
			c, err := decode[C](s)
			if err != nil {
				return nil, err
			}
			return open(ctx, c)
		},
	}
}

// decode reads a section into the config struct of a driver. Its errors name file and line.
func decode[C any](s configs.Section) (c C, err error) {
	if err := configs.Decode(s, &c); err != nil {
		return c, err
	}
	if own, ok := any(c).(interface{ Check() error }); ok && s.Node != nil {
		if err := own.Check(); err != nil {
			return c, s.Errorf("%v", err)
		}
	}
	return c, nil
}

// Check reads the section without opening anything.
func (k Kind) Check(s configs.Section) error { return k.check(s) }

// Open makes a back-end from its section; one that nobody wrote is the zero config.
func (k Kind) Open(ctx context.Context, s configs.Section) (Backend, error) { return k.open(ctx, s) }

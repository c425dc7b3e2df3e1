package backends

import "context"

// Section is the part of a run file that belongs to a back-end. It is an interface so that
// the small program in the boxes, which needs this package, starts without a reader of YAML.
type Section interface {
	// Written reports whether there is one; else Decode leaves into as it is.
	Written() bool
	// Decode reads it into a struct with yaml tags and refuses other keys.
	Decode(into any) error
	// Errorf makes an error that names the section's file and line.
	Errorf(format string, args ...any) error
}

// Kind makes back-ends of one kind from their section of the run file. What differs
// between kinds is here, so that no caller asks for one by its name.
type Kind struct {
	Name    string
	Auto    int  // its place in the order in which auto tries kinds, from 1; 0: auto never does
	Egress  bool // its own section has a list of hosts that boxes may reach (egress)
	Filters bool // its boxes refuse the system calls that our own list refuses
	Disk    bool // its boxes hold a limit of disk space where they hold one of memory
	// Around returns the same kind with what it takes from the environment, and with tell for
	// what it has to say while a person waits. nil: it takes nothing.
	Around func(env func(string) string, tell func(string)) Kind

	check func(Section) error
	open  func(context.Context, Section) (Backend, error)
}

// NewKind builds a Kind from the config struct C of a driver (yaml tags; its zero
// value must be usable). Unknown keys of the section are refused, and what the method
// `Check() error` of C, where there is one, objects to.
func NewKind[C any](name string, open func(context.Context, C) (Backend, error)) Kind {
	return Kind{
		Name:  name,
		check: func(s Section) error { _, err := decode[C](s); return err },
		open: func(ctx context.Context, s Section) (Backend, error) {
			c, err := decode[C](s)
			if err != nil {
				return nil, err
			}
			return open(ctx, c)
		},
	}
}

// decode reads a section into the config struct of a driver. Its errors name file and line.
func decode[C any](s Section) (c C, err error) {
	if err := s.Decode(&c); err != nil {
		return c, err
	}
	if own, ok := any(c).(interface{ Check() error }); ok && s.Written() {
		if err := own.Check(); err != nil {
			return c, s.Errorf("%v", err)
		}
	}
	return c, nil
}

// In is the kind in an environment: see Around.
func (k Kind) In(env func(string) string, tell func(string)) Kind {
	if k.Around == nil {
		return k
	}
	return k.Around(env, tell)
}

// Check reads the section without opening anything.
func (k Kind) Check(s Section) error { return k.check(s) }

// Open makes a back-end from its section. A section that the file does not have is the zero config.
func (k Kind) Open(ctx context.Context, s Section) (Backend, error) { return k.open(ctx, s) }

package envs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hermes/configs"
	"hermes/datasets"
)

// Split is a part of an environment's rows. Rows of one split never stand in the other.
type Split string

// The splits.
const (
	Train Split = "train"
	Eval  Split = "eval"
)

// Bundled is an environment with its own rows. Rows opens a split; the caller closes
// the dataset. The same settings give the same rows, on any machine.
type Bundled interface {
	Env
	Rows(ctx context.Context, split Split, o datasets.Options) (*datasets.Dataset, error)
}

// Kind makes environments of one kind from their section of the run file.
type Kind struct {
	Name     string
	Summary  string // one line for people
	Settings []Setting
	check    func(configs.Section) error
	open     func(context.Context, configs.Section) (Bundled, error)
}

// Setting is one key of a kind's section.
type Setting struct {
	Key  string `json:"key"`
	Type string `json:"type"`
	Help string `json:"help"`
}

// NewKind builds a Kind from the config struct C of an environment (tags yaml and help;
// its zero value must be usable or lead to an error that says what to set). Unknown keys
// of the section are refused.
func NewKind[C any](name, summary string, open func(context.Context, C) (Bundled, error)) Kind {
	decode := func(s configs.Section) (c C, err error) { return c, s.Decode(&c) }
	return Kind{
		Name: name, Summary: summary, Settings: settings(reflect.TypeFor[C]()),
		check: func(s configs.Section) error { _, err := decode(s); return err },
		open: func(ctx context.Context, s configs.Section) (Bundled, error) {
			c, err := decode(s)
			if err != nil {
				return nil, err
			}
			env, err := open(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("envs.%s: %w", name, err)
			}
			return env, nil
		},
	}
}

// Check reads the section without opening anything.
func (k Kind) Check(s configs.Section) error { return k.check(s) }

// Open makes an environment from its section; a missing section is the zero config.
func (k Kind) Open(ctx context.Context, s configs.Section) (Bundled, error) { return k.open(ctx, s) }

// ErrUnknown says that no kind has a name.
var ErrUnknown = errors.New("no environment")

// Find returns the kind called name.
func Find(kinds []Kind, name string) (Kind, error) {
	if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return kinds[i], nil
	}
	return Kind{}, fmt.Errorf("%w %q (have %s)", ErrUnknown, name, strings.Join(Names(kinds), ", "))
}

// Names lists the kinds by name, in their order.
func Names(kinds []Kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

func settings(t reflect.Type) []Setting {
	var out []Setting
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && key != "" && key != "-" {
			out = append(out, Setting{Key: key, Type: f.Type.String(), Help: f.Tag.Get("help")})
		}
	}
	return out
}

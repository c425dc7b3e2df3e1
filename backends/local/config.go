package local

import (
	"context"
	"time"

	"hermes/backends"
)

// Kind is the back-end of this package for run files.
var Kind = backends.NewKind("local", func(_ context.Context, c Config) (backends.Backend, error) { return New(c) })

// Config tunes the back-end. The zero value is usable.
type Config struct {
	Dir     string            `yaml:"dir"`     // where boxes are made; empty: the directory for temporary files
	Path    string            `yaml:"path"`    // PATH of commands; empty: wire.DefaultPath
	Env     map[string]string `yaml:"env"`     // of every command
	Confine bool              `yaml:"confine"` // file calls cannot leave the box's directory
	Grace   time.Duration     `yaml:"grace"`   // between TERM and KILL; 0: one second
}

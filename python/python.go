// Package python carries the Python files that environments are written with:
// hermes_env.py, and hermes_atropos.py for classes in the style of Atropos. `hermes env
// new --lang python` writes them beside a new environment.
package python

import _ "embed" // the files

// Env is hermes_env.py.
//
//go:embed hermes_env.py
var Env string

// Atropos is hermes_atropos.py.
//
//go:embed hermes_atropos.py
var Atropos string

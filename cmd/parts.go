package cmd

import (
	"hermes/backends"
	"hermes/rollout/tool"
)

// Parts are the extension points that a build of hermes has. A program of one's own
// appends to what [Builtin] returns and calls [Main].
type Parts struct {
	Backends []backends.Kind
	Tools    []tool.Def
	// Guises are programs that this binary becomes when it is started under another
	// name (the base name of argv[0]), before anything else is looked at: the server
	// inside a box. They return the exit code.
	Guises map[string]func(args []string) int
}

// Builtin are the parts that ship with hermes.
func Builtin() Parts {
	return Parts{}
}

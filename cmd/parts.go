package cmd

import (
	"os"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	"hermes/backends/ssh/station"
	"hermes/envs"
	"hermes/internal/build"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
)

// Parts are the extension points that a build of hermes has. A program of one's own
// appends to what [Builtin] returns and calls [Main].
type Parts struct {
	Backends []backends.Kind
	Tools    []tool.Def
	Envs     []envs.Kind
	// Programs are programs that this binary becomes when it is started under another
	// name (the base name of argv[0]), before anything else is looked at: the server
	// inside a box. They return the exit code.
	Programs map[string]func(args []string) int
}

// Builtin are the parts that ship with hermes.
func Builtin() Parts {
	return Parts{
		Backends: build.Backends(nil),
		Tools:    box.Builtin(),
		Envs:     build.Envs(),
		Programs: map[string]func([]string) int{wire.Name: inBox},
	}
}

// inBox is this program inside a box, pid 1 of namespaces or the plain server, or on a
// host that makes boxes.
func inBox(args []string) int {
	if code, handled := namespace.Main(args); handled {
		return code
	}
	if code, handled := station.Main(args, os.Stdin, os.Stdout, os.Stderr); handled {
		return code
	}
	return server.Main(args[1:], os.Stdin, os.Stdout, os.Stderr)
}

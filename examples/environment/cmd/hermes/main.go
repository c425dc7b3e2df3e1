// Command hermes is hermes with the environment of this module.
package main

import (
	"context"
	"os"

	"hermes/cmd"
	"ledger"
)

func main() {
	parts := cmd.Builtin()
	parts.Envs = append(parts.Envs, ledger.Kind)
	os.Exit(cmd.Main(context.Background(), os.Args, parts))
}

// Command hermes rolls out tool-using language-model agents.
package main

import (
	"context"
	"os"

	"hermes/cmd"
)

func main() { os.Exit(cmd.Main(context.Background(), os.Args, cmd.Builtin())) }

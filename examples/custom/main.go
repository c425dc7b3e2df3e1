// Command mine is hermes with its own tool, environment and back-end.
package main

import (
	"context"
	"os"

	"custom/audited"
	"custom/quiz"
	"custom/wordcount"
	"hermes/cmd"
)

func main() {
	parts := cmd.Builtin()
	parts.Tools = append(parts.Tools, wordcount.Tool())
	parts.Envs = append(parts.Envs, quiz.Kind)
	parts.Backends = append(parts.Backends, audited.Kind)
	os.Exit(cmd.Main(context.Background(), os.Args, parts))
}

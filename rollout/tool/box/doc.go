// Package box holds the tools that need nothing but a box: terminal, process, the file
// tools, todo and execute_code.
//
// They are written against [backends.Sandbox] once and behave alike on every back-end.
// The tools of one rollout share a session: the working directory and environment that
// commands leave behind and background processes (package shell), and what was read of which
// file. Nothing here touches the host's files or processes. Package edit changes texts.
//
// Handlers are safe for concurrent use.
package box

import (
	"cmp"
	"embed"
	"encoding/json"
	"time"

	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Options tune the tools. The zero value is usable.
type Options struct {
	Timeout     time.Duration // of a command that sets none; 0 means 180 s
	MaxTimeout  time.Duration // of a foreground command; 0 means 600 s
	CodeTimeout time.Duration // of execute_code; 0 means 300 s
	CodeCalls   int           // tool calls of one execute_code; 0 means 50
	ReadChars   int           // characters of one read_file; 0 means 100,000
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 180*time.Second)
	o.MaxTimeout = cmp.Or(o.MaxTimeout, 600*time.Second)
	o.CodeTimeout = cmp.Or(o.CodeTimeout, 300*time.Second)
	o.CodeCalls = cmp.Or(o.CodeCalls, 50)
	o.ReadChars = cmp.Or(o.ReadChars, 100_000)
	return o
}

// Builtin lists the tools with default options.
func Builtin() []tool.Def { return New(Options{}) }

// New lists the tools with their options.
func New(o Options) []tool.Def {
	o = o.withDefaults()
	return []tool.Def{terminal(o), process(o), readFile(o), writeFile(o), patch(o), searchFiles(o), todo(), executeCode(o)}
}

//go:embed *.md *.py
var texts embed.FS

func text(name string) string {
	b, err := texts.ReadFile(name)
	if err != nil {
		panic(err) // a file that the build did not embed
	}
	return string(b)
}

func spec(name, parameters string) trajectory.ToolSpec {
	if !json.Valid([]byte(parameters)) {
		panic("parameters of " + name + " are not JSON")
	}
	description := text(name + ".md")
	for len(description) > 0 && description[len(description)-1] == '\n' {
		description = description[:len(description)-1]
	}
	return trajectory.ToolSpec{Name: name, Description: description, Parameters: json.RawMessage(parameters)}
}

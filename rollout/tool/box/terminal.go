package box

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hermes/internal/late"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
	"hermes/rollout/tool/box/shell"
)

const terminalLimit = 50_000 // characters of output

const terminalParameters = `{
  "type": "object",
  "properties": {
    "command": {"type": "string", "description": "The command line, for bash."},
    "background": {"type": "boolean", "default": false, "description": "Start it and return at once; the process tool watches it."},
    "timeout": {"type": "integer", "minimum": 1, "description": "Seconds until a foreground command is ended (default 180, at most 600)."},
    "workdir": {"type": "string", "description": "Directory for this command only; default is where the last command ended."},
    "pty": {"type": "boolean", "default": false, "description": "Give a background command a terminal of its own, for interactive programs."},
    "notify_on_complete": {"type": "boolean", "default": false, "description": "Background only: tell me when it ends."},
    "watch_patterns": {"type": "array", "items": {"type": "string"}, "description": "Background only: texts in the output that I want to be told of."}
  },
  "required": ["command"],
  "additionalProperties": false
}`

type terminalArgs struct {
	Command    string   `json:"command"`
	Background bool     `json:"background"`
	Timeout    int      `json:"timeout"`
	Workdir    string   `json:"workdir"`
	PTY        bool     `json:"pty"`
	Notify     bool     `json:"notify_on_complete"`
	Patterns   []string `json:"watch_patterns"`
}

type terminalResult struct {
	Output  string  `json:"output"`
	Code    int     `json:"exit_code"`
	Error   *string `json:"error"`
	Meaning string  `json:"exit_code_meaning,omitempty"`
	Status  string  `json:"status,omitempty"`
}

func terminal(o Options) tool.Def {
	return tool.Def{
		Spec: spec("terminal", terminalParameters), Toolset: "terminal", About: "Run commands and manage processes.",
		Traits: tool.Traits{FromCode: true, NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.terminal), nil
		},
	}
}

// notRun is the answer to a command that was refused.
func notRun(status, format string, args ...any) tool.Result {
	why := fmt.Sprintf(format, args...)
	return tool.Result{Text: tool.JSON(terminalResult{Code: -1, Error: &why, Status: status}), Failed: true}
}

var workdirChars = late.Regexp(`^[A-Za-z0-9/\\:_\-.~+@=, ]*$`)

func (x *session) terminal(ctx context.Context, a terminalArgs) (tool.Result, error) {
	x.files.other(x)
	switch {
	case strings.TrimSpace(a.Command) == "":
		return notRun("", "the command is empty"), nil
	case strings.ContainsRune(a.Command, 0):
		return notRun("", "the command contains a NUL character"), nil
	case !workdirChars.MatchString(a.Workdir):
		return notRun("", "workdir %q has characters that are not allowed; use cd in the command", edit.Clip(a.Workdir, 80)), nil
	case a.Background && tool.FromCode(ctx):
		return notRun("", "code can only run foreground commands"), nil
	case !a.Background && time.Duration(a.Timeout)*time.Second > x.opt.MaxTimeout:
		return notRun("", "a foreground command may take at most %d seconds; use background=true and the process tool for longer ones", int(x.opt.MaxTimeout.Seconds())), nil
	}
	if !a.Background {
		if why := shell.LongRunner(a.Command); why != "" {
			return notRun("", "%s", why), nil
		}
	}
	if ok, err := x.approved(ctx, kindCommands, "terminal%s, in %s:\n%s", inBackground(a.Background), x.folder(a.Workdir), a.Command); err != nil || !ok {
		return notRun("blocked", "the command was not allowed"), err
	}
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	if a.Background {
		return x.background(ctx, b, a)
	}
	timeout := x.opt.Timeout
	if a.Timeout > 0 {
		timeout = time.Duration(a.Timeout) * time.Second
	}
	r, err := x.sh.Run(ctx, b, a.Command, a.Workdir, timeout)
	if err != nil {
		return tool.Result{}, fmt.Errorf("terminal: %w", err)
	}
	res := terminalResult{Output: shell.HeadTail(shell.Clean(r.Stdout), terminalLimit, r.Dropped), Code: r.Code}
	switch {
	case r.TimedOut:
		res.Code = 124
		res.Output = strings.TrimSuffix(res.Output, "\n") + fmt.Sprintf("\n[Command timed out after %ds]", int(timeout.Seconds()))
	case r.OOM:
		why := "the memory limit of the sandbox was hit"
		res.Error = &why
	}
	res.Meaning = meaning(a.Command, r.Code)
	return tool.Result{Text: tool.JSON(res), Failed: res.Code != 0 && res.Meaning == ""}, nil
}

func inBackground(yes bool) string {
	if yes {
		return " in the background"
	}
	return ""
}

var lastCommand = late.Regexp(`[;|&\n]+`)

// meaning explains exit codes that are no failure, or whose number alone says little.
func meaning(command string, code int) string {
	if code == 0 {
		return ""
	}
	parts := lastCommand.Split(strings.TrimSpace(command), -1)
	words := strings.Fields(parts[len(parts)-1])
	for len(words) > 1 && strings.Contains(words[0], "=") {
		words = words[1:] // VAR=x command
	}
	if len(words) == 0 {
		return ""
	}
	name := words[0][strings.LastIndexByte(words[0], '/')+1:]
	switch name {
	case "egrep", "fgrep", "rg", "ag", "ack":
		name = "grep"
	case "[":
		name = "test"
	}
	switch fmt.Sprintf("%s %d", name, code) {
	case "grep 1":
		return "No match was found (not an error)"
	case "diff 1":
		return "The files differ (not an error)"
	case "find 1":
		return "Some paths could not be read; the results may be incomplete"
	case "test 1":
		return "The condition is false (not an error)"
	case "curl 6":
		return "The host name could not be resolved"
	case "curl 7":
		return "No connection to the host"
	case "curl 22":
		return "The server answered with an HTTP error"
	case "curl 28":
		return "The request timed out"
	case "git 1":
		return "Often not an error: git diff found differences, or there was nothing to do"
	}
	return ""
}

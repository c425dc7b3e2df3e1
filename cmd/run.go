package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"hermes/configs"
	"hermes/internal/build"
	"hermes/internal/plainlog"
)

// process is what run gets of the process it lives in.
type process struct {
	stdio   Stdio
	environ []string
	signals <-chan os.Signal
	end     func(code int) // ends the process at once; nil: not possible
	program string         // path of the executable; "" when unknown

	// libraries takes the writer of the standard logger. net/http writes to it what a server
	// sent unasked, which may be a key: so it goes through the same filters as all of stderr.
	// Nil: not set.
	libraries func(io.Writer)
}

// root is the grammar. A new command is its own file and one line here.
type root struct {
	Help    helpFlag    `short:"h" group:"Everywhere:" help:"Show what a command does."`
	HelpAll helpAllFlag `name:"help-all" group:"Everywhere:" help:"Show all flags of a command."`
	About   versionFlag `name:"version" group:"Everywhere:" help:"Say which build this is."`
	Config  string      `group:"Everywhere:" short:"c" placeholder:"FILE" help:"Run file: YAML with the long flag names as keys."`
	Preset  string      `group:"Everywhere:" placeholder:"NAME" help:"Embedded settings below all files: ${presets}."`
	Log     logFlags    `embed:"" group:"Everywhere:" prefix:"log-"`

	Batch      batchCmd      `cmd:"" group:"Make data:" help:"Roll out every row of a dataset and write a run directory."`
	Runs       runsCmd       `cmd:"" group:"Make data:" help:"Look at run directories; check, export and merge them."`
	Data       dataCmd       `cmd:"" group:"Make data:" help:"Show, check, convert, split and mix datasets."`
	Compress   compressCmd   `cmd:"" group:"Make data:" help:"Make trajectories fit a budget of tokens."`
	Eval       evalCmd       `cmd:"" group:"Evaluate and train:" help:"Evaluate models: run suites, score again, compare, report."`
	Environ    envCmd        `cmd:"" group:"Evaluate and train:" name:"env" help:"Environments: list, check, roll out, debug and make them."`
	RunAPI     runAPICmd     `cmd:"" group:"Evaluate and train:" name:"run-api" help:"Serve Atropos' trajectory API, persistently."`
	Bench      benchCmd      `cmd:"" group:"Evaluate and train:" help:"Measure what the engine costs, against the scripted server."`
	Agent      agentCmds     `embed:""`
	Tools      toolsCmd      `cmd:"" group:"Talk to a model, and try the parts:" help:"Show tools and call them."`
	Toolsets   toolsetsCmd   `cmd:"" group:"Talk to a model, and try the parts:" help:"Show toolsets and distributions."`
	Sandbox    sandboxCmd    `cmd:"" group:"Talk to a model, and try the parts:" help:"Show, check and use back-ends of boxes."`
	Model      modelCmd      `cmd:"" group:"Talk to a model, and try the parts:" help:"Parse, render and tokenize; a scripted model server."`
	Settings   configCmd     `cmd:"" group:"This machine:" name:"config" norunfile:"" help:"Show, check and create the configuration."`
	Doctor     doctorCmd     `cmd:"" group:"This machine:" help:"Look at what this machine offers and what is missing."`
	Completion completionCmd `cmd:"" group:"This machine:" help:"Write what lets a shell complete commands and flags."`
	Helping    helpCmd       `cmd:"" name:"help" group:"This machine:" help:"Show the help of a command."`
	Version    versionCmd    `cmd:"" group:"This machine:" help:"Say which build this is."`
}

type logFlags struct {
	Level  slog.Level `default:"warn" help:"Least severe log lines on stderr: debug, info, warn, error."`
	Format string     `default:"text" enum:"text,logfmt,json" help:"Form of log lines: ${enum}; text counts lines that repeat."`
}

// host is what a command may use: bound to the Run methods.
type host struct {
	Ctx     context.Context
	Stdio   Stdio
	Env     configs.Env
	Layers  *configs.Layers
	Parts   Parts
	Signals *Signals
	Log     *slog.Logger
	Redact  *configs.Redactor
	Program string // path of this executable; "" when unknown

	args    []string         // without the program's name
	opened  func(dir string) // see build.Host.Opened
	handler func(io.Writer) slog.Handler
	logs    []*plainlog.Handler // made by handler; flushed at the end
	kong    *kong.Kong
	parsed  *kong.Context
}

// run is hermes without the process around it. Its streams and the environment come
// with p, so that tests can run it many times in one process.
func run(ctx context.Context, args []string, p process, parts Parts) int {
	env, err := configs.NewEnv(p.environ)
	redact := configs.Redact(env)
	p.stdio.Err = redact.Writer(p.stdio.Err)
	if p.libraries != nil {
		p.libraries(p.stdio.Err)
	}
	say := func(text string) { fmt.Fprintln(p.stdio.Err, "hermes: "+text) }
	if err != nil {
		return finish(err, nil, say)
	}
	ctx, signals, stop := Watch(ctx, p.signals, say, p.end)
	defer stop()
	parts.Backends = build.Surround(parts.Backends, env.Get, say)
	h := &host{Ctx: ctx, Stdio: p.stdio, Env: env, Parts: parts, Signals: signals, Redact: redact, Program: p.program, args: args}
	err = h.dispatch(args, say)
	return finish(err, signals, say)
}

// dispatch parses the command line over the layers and runs the command.
func (h *host) dispatch(args []string, say func(string)) error {
	args, err := atroposArgs(withHelp(args), say)
	if err != nil {
		return Usage("%w", err)
	}
	var grammar root
	k, err := h.grammar(&grammar)
	if err != nil {
		return err
	}
	h.kong = k
	if len(args) > 0 && args[0] == completeWord {
		return h.complete(args[1:])
	}
	trace, err := kong.Trace(k, args)
	if err != nil {
		return Usage("%w", err)
	}
	if trace.Error == nil && trace.Selected() != nil && !asksHelp(trace) {
		h.Layers, err = h.load(trace)
		if err != nil {
			return &Exit{Code: ExitUsage, Err: err}
		}
		if err := kong.Resolvers(h.Layers).Apply(k); err != nil { // the grammar is the dearest part of a start: it is built once
			return err
		}
	}
	h.parsed, err = k.Parse(args)
	if err != nil {
		if errors.Is(err, errHelp) {
			return nil
		}
		return Usage("%w%s", err, hint(err))
	}
	if err := errors.Join(configs.CheckRanges(h.parsed), configs.CheckAddresses(h.parsed)); err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	h.hideNamedKeys()
	for _, w := range h.Layers.Warnings() {
		say("warning: " + w)
	}
	h.handler = func(w io.Writer) slog.Handler { return h.Redact.Handler(h.logHandler(w, grammar.Log)) }
	h.Log = slog.New(h.handler(h.Stdio.Err))
	defer h.flushLogs()
	return h.parsed.Run(h)
}

// hideNamedKeys makes the values of the variables that flags such as --api-key-env name
// known to the redactor, whatever the variables are called.
func (h *host) hideNamedKeys() {
	for _, f := range h.parsed.Flags() {
		if !strings.HasSuffix(f.Name, "-env") {
			continue
		}
		for _, name := range strings.Split(configs.Text(f.Target), ",") {
			h.Redact.Add(h.Env.Get(name[strings.LastIndexByte(name, '=')+1:])) // HOST=NAME too
		}
	}
}

// grammar builds the parser. Streams, not the process, get the help text.
func (h *host) grammar(into *root) (*kong.Kong, error) {
	return kong.New(into,
		kong.Name("hermes"),
		kong.Description("Rolls out tool-using language-model agents by the thousand, exactly, and records truthfully what happened."),
		kong.NoDefaultHelp(),
		kong.Writers(h.Stdio.Out, h.Stdio.Err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.Vars{"presets": strings.Join(configs.Presets(), ", "), "suites": strings.Join(configs.Suites(), ", ")},
		kong.Bind(h),
		kong.Exit(func(int) {}),
	)
}

// load reads the layers that the traced command line points to.
func (h *host) load(trace *kong.Context) (*configs.Layers, error) {
	o := configs.Options{App: h.kong.Model, Command: trace.Selected(), Env: h.Env, Secrets: h.Redact}
	for _, f := range trace.Flags() {
		switch text, _ := trace.FlagValue(f).(string); f.Name {
		case "config":
			o.RunFile = text
		case "preset":
			o.Preset = text
		}
	}
	for n := o.Command; n != nil; n = n.Parent {
		if n.Tag != nil && n.Tag.Has("norunfile") { // it is about run files of other commands
			o.RunFile = ""
		}
	}
	if err := evaluation(trace, &o); err != nil {
		return nil, err
	}
	return configs.Load(o)
}

// asksHelp reports whether a flag asks for a text that needs no settings.
func asksHelp(trace *kong.Context) bool {
	return slices.ContainsFunc(trace.Path, func(p *kong.Path) bool {
		return p.Flag != nil && slices.Contains([]string{"help", "help-all", "version"}, p.Flag.Name)
	})
}

// hint points to the help of the command that the user was writing.
func hint(err error) string {
	var pe *kong.ParseError
	if !errors.As(err, &pe) || pe.Context == nil {
		return ""
	}
	name := "hermes"
	if n := pe.Context.Selected(); n != nil {
		name = n.FullPath()
	}
	return "\nSee " + name + " --help."
}

func (h *host) logHandler(w io.Writer, f logFlags) slog.Handler {
	o := &slog.HandlerOptions{Level: f.Level}
	switch f.Format {
	case "json":
		return slog.NewJSONHandler(w, o)
	case "logfmt":
		return slog.NewTextHandler(w, o)
	}
	plain := plainlog.New(w, f.Level)
	h.logs = append(h.logs, plain)
	return plain
}

// flushLogs writes how many log lines were counted in place of written. An error of stderr is
// not reported: there is no other place for it.
func (h *host) flushLogs() {
	for _, l := range h.logs {
		_ = l.Flush()
	}
}

// finish says an error and returns the exit code. An interrupted run keeps the code of
// its signal unless something of ours failed.
func finish(err error, signals *Signals, say func(string)) int {
	code := ExitDone
	if e, ok := asExit(err); ok {
		code = e.Code
		err = e.Err
	} else if err != nil {
		code = ExitOurs
		if configs.IsError(err) {
			code = ExitUsage
		}
	}
	if signals != nil && signals.Draining() {
		if cancelled := errors.Is(err, context.Canceled) || errors.Is(err, ErrInterrupted); cancelled {
			return signals.Code()
		}
		code = Worse(code, signals.Code())
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			say(line)
		}
	}
	return code
}

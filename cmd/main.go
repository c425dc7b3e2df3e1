package cmd

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"

	"hermes/envs/remote"
	"hermes/internal/printable"
)

// Stdio are the streams of a command.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer // where a terminal may be behind them, through [printable.Writer]
	Screen   io.Writer // the terminal behind Err itself, for the progress bar; nil: Err
	// Width gives the columns of the terminal behind Err, asked again each time because
	// it may be resized; nil when there is no terminal. InTerminal says that a person
	// types into In.
	Width      func() int
	InTerminal bool
}

// Main runs the command line args (args[0] is the program's name) with the parts p and
// returns the exit code. It owns the standard streams, the environment and the signals
// of the process.
func Main(ctx context.Context, args []string, p Parts) int {
	if len(args) > 0 {
		if program := p.Programs[filepath.Base(args[0])]; program != nil {
			return program(args)
		}
		args = args[1:]
	}
	stdio := Stdio{In: os.Stdin, Out: os.Stdout, Err: printable.NewWriter(os.Stderr), InTerminal: term.IsTerminal(int(os.Stdin.Fd()))}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		stdio.Out = printable.NewWriter(os.Stdout)
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		stdio.Screen = os.Stderr
		stdio.Width = func() int {
			w, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 80
			}
			return w
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, watched()...)
	defer signal.Stop(signals)
	return run(ctx, args, process{stdio: stdio, environ: os.Environ(), signals: signals, end: byForce, program: executable(), libraries: log.SetOutput}, p)
}

// byForce ends the process whatever hangs in it, and first what it has started of programs of
// environments, if that does not hang, too.
func byForce(code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	go func() {
		defer cancel()
		remote.EndOwn(ctx)
	}()
	<-ctx.Done()
	os.Exit(code)
}

// executable is the path of this program, for those who start it again under another name.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"hermes/internal/app"
)

// benchCmd is `hermes bench`. What is not said is as the shape has it; see docs/bench.md.
type benchCmd struct {
	Shape       string         `nokey:"" enum:"plain,tool,long,flight,serve,batch,agentic" default:"plain" help:"plain (a user speaks), tool (one call a turn), long (74 kB of context), flight (10,000 at once, 5 s of latency), serve (env serve: 4,000 at once with exact tokens, posted to a run-api), batch ('hermes batch' with its defaults) or agentic ('hermes batch' with commands and files in boxes, 2,000 at once, 5 s of latency)."`
	Rollouts    *int           `nokey:"" range:"1:" placeholder:"N" help:"Rollouts of a round."`
	Turns       *int           `nokey:"" range:"1:" placeholder:"N" help:"Model answers of each."`
	Context     *int           `nokey:"" name:"context-bytes" range:"1:" placeholder:"N" help:"Mean size of a conversation."`
	Concurrency *int           `nokey:"" aliases:"in-flight" range:"1:" placeholder:"N" help:"Rollouts at once."`
	Rounds      *int           `nokey:"" range:"1:" placeholder:"N" help:"Rounds, of which the figures are medians."`
	Latency     *time.Duration `nokey:"" range:"0s:" help:"With which the model answers."`
	Backend     string         `nokey:"" default:"auto" placeholder:"NAME" help:"Where the boxes of the shape agentic live."`
	Profile     string         `nokey:"" placeholder:"FILE" help:"Write a CPU profile, for go tool pprof."`
	JSON        bool           `name:"json" nokey:"" help:"One JSON object."`
}

// Run measures the engine against the scripted server, which runs in another process.
func (c *benchCmd) Run(h *host) (err error) {
	b, err := app.NewBench(app.Bench{Shape: c.Shape, Rollouts: value(c.Rollouts), Turns: value(c.Turns), Context: value(c.Context),
		InFlight: value(c.Concurrency), Rounds: value(c.Rounds), Backend: c.Backend}, c.Latency)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	if b.Dir, err = os.MkdirTemp("", "hermes-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.Dir)) }()
	model := []string{"model", "fake", "--listen", "127.0.0.1:0", "--latency", b.Latency.String()}
	if b.Shape == "serve" {
		model = append(model, "--tokenizer", "builtin:prose")
		api, _, stop, err := c.server(h, "run-api", "--port", "0", "--data", filepath.Join(b.Dir, "run-api"))
		if err != nil {
			return err
		}
		defer stop()
		b.API = api
	}
	if b.Shape == "batch" || b.Shape == "agentic" {
		stop, err := c.typed(h, &b)
		if err != nil {
			return err
		}
		defer stop()
	} else {
		url, _, stop, err := c.server(h, model...)
		if err != nil {
			return err
		}
		defer stop()
		b.Base = url + "/v1"
	}
	if c.Profile != "" {
		f, err := os.Create(c.Profile)
		if err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	f, err := b.Run(h.Ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, f)
	}
	_, err = fmt.Fprint(h.Stdio.Out, f.Lines())
	return err
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// server starts a server of hermes, which says its address first, and returns that.
func (c *benchCmd) server(h *host, args ...string) (url string, pid int, stop func(), err error) {
	if h.Program == "" {
		return "", 0, nil, errors.New("bench: this program does not know its own path, so it cannot start the servers")
	}
	server := exec.CommandContext(h.Ctx, h.Program, args...)
	server.Args[0], server.Env = "hermes", append([]string{}, "HOME="+os.TempDir(), "HERMES_HOME="+os.TempDir()+"/hermes-none")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	out, err := server.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := server.Start(); err != nil {
		return "", 0, nil, fmt.Errorf("start %s: %w", strings.Join(args[:2], " "), err)
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait() // its code tells of our signal
	}
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("%s did not say its address: %w", strings.Join(args[:2], " "), err)
	}
	return strings.TrimSpace(url), server.Process.Pid, stop, nil
}

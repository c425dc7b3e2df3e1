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

	"hermes/internal/runs/bench"
	"hermes/internal/settings"
)

// benchCmd is `hermes bench`; see docs/bench.md.
type benchCmd struct{ settings.Bench }

// Run measures the engine against the scripted server, which runs in another process.
func (c *benchCmd) Run(h *host) (err error) {
	b, err := bench.New(c.Bench)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	b.Dir, err = os.MkdirTemp("", "hermes-bench-")
	if err != nil {
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
	return h.result(c.JSON, f, "%s", f.Lines())
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

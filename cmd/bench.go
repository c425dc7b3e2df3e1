package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"hermes/internal/app"
)

// benchCmd is `hermes bench`.
type benchCmd struct {
	Rollouts    int  `nokey:"" default:"300" range:"1:" help:"Rollouts."`
	Turns       int  `nokey:"" default:"20" range:"1:" help:"Model answers of each."`
	Context     int  `nokey:"" name:"context-bytes" default:"12000" range:"1:" help:"Mean size of a conversation."`
	Concurrency int  `nokey:"" aliases:"in-flight" default:"64" range:"1:" help:"Rollouts at once."`
	JSON        bool `name:"json" nokey:"" help:"One JSON object."`
}

// Run measures the engine against the scripted server, which runs in another process.
func (c *benchCmd) Run(h *host) (err error) {
	if h.Program == "" {
		return errors.New("bench: this program does not know its own path, so it cannot start the model server")
	}
	server := exec.CommandContext(h.Ctx, h.Program, "model", "fake", "--listen", "127.0.0.1:0")
	server.Args[0], server.Env = "hermes", append([]string{}, "HOME="+os.TempDir(), "HERMES_HOME="+os.TempDir()+"/hermes-none")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the model server: %w", err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait() // its code tells of our signal
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the model server did not say its address: %w", err)
	}
	dir, err := app.TempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := app.Bench{Base: strings.TrimSpace(url) + "/v1", Rollouts: c.Rollouts, Turns: c.Turns, Context: c.Context, InFlight: c.Concurrency, Dir: dir}.Run(h.Ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, f)
	}
	_, err = fmt.Fprintf(h.Stdio.Out, "%d rollouts of %d turns, %d bytes of context, %d in flight: %.0f µs of processor time a turn (bare net/http: %.0f µs), %.0f turns/s, %.0f MB\n",
		f.Rollouts, f.Turns, f.Context, f.InFlight, f.CPUPerTurn, f.Floor, f.PerSecond, f.PeakMB)
	return err
}

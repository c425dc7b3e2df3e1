package cmd

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"hermes/configs"
	"hermes/internal/atropos/api"
	"hermes/internal/guard"
)

// runAPICmd is `hermes run-api`. Its settings belong to one server and are no keys of run
// files; --host, --port and --reload are Atropos' own.
type runAPICmd struct {
	Host     string        `nokey:"" default:"127.0.0.1" help:"Address to listen on; beyond the loopback it wants --token, --allow or --insecure."`
	Port     int           `nokey:"" default:"8000" range:"0:65535" help:"Port; 0 takes a free one."`
	Data     string        `nokey:"" default:"run-api" placeholder:"DIR" help:"Where groups and the state are kept; one server a directory."`
	Strict   bool          `nokey:"" help:"Answer exactly as Atropos' server does: no checks beyond types, no word about stalls."`
	Order    string        `nokey:"" default:"newest" enum:"newest,oldest" help:"Which of several formed batches goes out first: newest, as Atropos has it, or oldest."`
	Lease    time.Duration `nokey:"" default:"10m" help:"How long a batch waits for the acknowledgement of a trainer that gives them."`
	MaxBody  configs.Size  `nokey:"" default:"1GiB" range:"1KiB:" placeholder:"SIZE" help:"Largest body, inflated."`
	Memory   configs.Size  `nokey:"" default:"2GiB" range:"1MiB:" placeholder:"SIZE" help:"Memory for bodies that are worked on at once; others wait."`
	MaxQueue configs.Size  `nokey:"" default:"64GiB" range:"1KiB:" placeholder:"SIZE" help:"Groups kept on disk; posts wait for room above it."`
	Reload   bool          `nokey:"" hidden:"" help:"Taken for Atropos' sake; a compiled server has nothing to reload."`
	guardFlags
}

// apiGCPercent lets the heap of the server grow: it keeps next to nothing between requests.
const apiGCPercent = 400

// Run serves until a signal. The first line of stdout is the address.
func (c *runAPICmd) Run(h *host) (err error) {
	o, err := c.guard(h)
	if err != nil {
		return err
	}
	o.Host = c.Host
	o.Port = c.Port
	o.MaxBody = int64(c.MaxBody)
	if c.Lease <= 0 {
		return Usage("--lease %s: it must be longer than nothing", c.Lease)
	}
	var srv *api.Server
	o.Healthy = func() error { return srv.Err() }
	g, err := guard.New(o)
	if err != nil {
		return Usage("%w", err)
	}
	if c.Reload {
		fmt.Fprintln(h.Stdio.Err, "hermes: --reload has no effect: a compiled server has nothing to reload")
	}
	srv, rec, err := api.Open(api.Options{Dir: c.Data, Strict: c.Strict, FIFO: c.Order == "oldest", Lease: c.Lease, MaxBody: int64(c.MaxBody),
		Memory: int64(c.Memory), MaxQueue: int64(c.MaxQueue), Log: h.Log})
	if err != nil {
		return &Exit{Code: ExitUsage, Err: fmt.Errorf("--data %s: %w", c.Data, err)}
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	defer debug.SetGCPercent(debug.SetGCPercent(apiGCPercent))
	ctx, stop := h.untilSignal()
	defer stop()
	r, err := g.Serve(ctx, srv)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	if rec.Groups > 0 || rec.Cut > 0 {
		fmt.Fprintf(h.Stdio.Err, "hermes: %s holds %d groups (%d sequences queued), read in %s; %d bytes of a torn event were cut\n",
			c.Data, rec.Groups, rec.Sequences, rec.Took.Round(time.Millisecond), rec.Cut)
	}
	if _, err := fmt.Fprintln(h.Stdio.Out, r.URL); err != nil {
		return err
	}
	return r.Wait()
}

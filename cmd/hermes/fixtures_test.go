package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// mkrun makes a run directory: mkrun DIR MODEL SHARD FROM TO. Of ten planned samples
// those in [FROM, TO) are in its log; sample 5 failed.
func mkrun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: mkrun DIR MODEL SHARD FROM TO")
	}
	from, err := strconv.Atoi(args[3])
	ts.Check(err)
	to, err := strconv.Atoi(args[4])
	ts.Check(err)
	ts.Check(makeRun(context.Background(), ts.MkAbs(args[0]), args[1], args[2], from, to))
}

func makeRun(ctx context.Context, dir, model, shard string, from, to int) error {
	m := rundir.Manifest{Version: "1", Identity: rundir.Fields{{Name: "model", Value: model}}, Extent: rundir.Extent{Planned: 10, Shard: shard},
		Books: rundir.Books{Mode: "batch"}, Tools: []string{"terminal"}}
	d, err := rundir.Open(ctx, dir, m, rundir.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	p, err := sink.New(d.Journal, dir, d.Manifest, sink.Options{})
	if err != nil {
		return err
	}
	p.Follow(ctx)
	for i := from; i < to; i++ {
		tr := trajectory.New(trajectory.ModeText, nil)
		tr.Finish([]trajectory.Message{trajectory.Text(trajectory.User, fmt.Sprint("task ", i)), trajectory.Text(trajectory.Assistant, "done")})
		r := &trajectory.Record{Key: trajectory.NewKey(shard+fmt.Sprint(i), 0, 0, 0), Row: fmt.Sprint("row", i), Attempt: 1,
			Outcome: trajectory.Answered, Score: &trajectory.Score{Reward: 1}, Started: time.Unix(int64(i), 0).UTC(), Trace: tr}
		if i == 5 {
			r.Outcome = trajectory.Sandbox
			r.Score = nil
			r.Reason = "box lost"
		}
		if _, err := d.Journal.Append(ctx, r); err != nil {
			return err
		}
	}
	_, err = p.Finish(ctx)
	return err
}

// freeport sets a variable to a port on which no process listens. It is below those that the
// system gives to connections, so that none takes it before it is used.
func freeport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport NAME")
	}
	for {
		port := strconv.Itoa(12000 + rand.IntN(20000))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		ts.Check(err)
		ts.Setenv(args[0], port)
		ts.Check(l.Close())
		return
	}
}

// ask asks a server: ask STATUS URL TEXT [BODY]. It waits until the server listens; the
// answer must have the status and hold TEXT. A key is taken from $KEY.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: ask STATUS URL TEXT [BODY]")
	}
	method, body := http.MethodGet, ""
	if len(args) == 4 {
		method, body = http.MethodPost, args[3]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := http.NewRequestWithContext(ctx, method, args[1], strings.NewReader(body))
		ts.Check(err)
		q.Header.Set("Authorization", "Bearer "+ts.Getenv("KEY"))
		a, err := http.DefaultClient.Do(q)
		if err == nil {
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			ts.Check(err)
			if strconv.Itoa(a.StatusCode) != args[0] || !strings.Contains(string(text), args[2]) {
				ts.Fatalf("status %d, want %s; %q, want %q", a.StatusCode, args[0], text, args[2])
			}
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("%s: %v", args[1], err)
		case <-tick.C:
		}
	}
}

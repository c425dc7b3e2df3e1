package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs/rows"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/rollout/journal"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Bench measures what the engine costs beside a model server: rollouts of a few turns
// against the scripted server at Base, which must run in another process.
type Bench struct {
	Base     string // of the server, ending in /v1
	Rollouts int
	Turns    int
	Context  int // bytes of the conversation, on average over the turns
	InFlight int
	Dir      string // for the log
}

// Figures are the result. Processor time is of this process alone.
type Figures struct {
	Shape      string  `json:"shape"`
	Rollouts   int     `json:"rollouts"`
	Turns      int     `json:"turns"`
	Context    int     `json:"context_bytes"`
	InFlight   int     `json:"in_flight"`
	CPUPerTurn float64 `json:"cpu_us_per_turn"`
	Floor      float64 `json:"floor_us_per_turn"` // the same requests by net/http alone
	PerSecond  float64 `json:"turns_per_second"`
	PeakMB     float64 `json:"peak_mb"`
	Seconds    float64 `json:"seconds"`
}

// Run rolls out, with validation, journal, events and metrics on, then sends the same
// number of requests of the same size without hermes.
func (b Bench) Run(ctx context.Context) (Figures, error) {
	f := Figures{Shape: "long", Rollouts: b.Rollouts, Turns: b.Turns, Context: b.Context, InFlight: b.InFlight}
	w, err := wire.New(wire.Options{Bases: []string{b.Base}, Concurrency: b.InFlight})
	if err != nil {
		return f, err
	}
	defer w.Close()
	pol, err := policy.NewChat(w, policy.ChatOptions{Model: "fake"})
	if err != nil {
		return f, err
	}
	env, err := rows.New(rows.Options{})
	if err != nil {
		return f, err
	}
	log, err := journal.Open(filepath.Join(b.Dir, "journal"), journal.Options{})
	if err != nil {
		return f, err
	}
	defer log.Close()
	watch := event.All(prom.New())
	r, err := rollout.NewRunner(rollout.Options{Env: env, Policy: pol, SendScripts: true, Observer: watch,
		Plan: func(context.Context, []string, func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
			return []tool.Def{noop(b.step())}, nil, nil
		}})
	if err != nil {
		return f, err
	}
	eng, err := engine.New(r, log, engine.Options{InFlight: b.InFlight, Observer: watch, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return f, err
	}
	start, cpu := time.Now(), processor()
	sum := eng.Run(ctx, nil, b.rows())
	if sum.Stopped != nil || sum.Ended != int64(b.Rollouts) {
		return f, fmt.Errorf("%d of %d rollouts ended: %w", sum.Ended, b.Rollouts, sum.Stopped)
	}
	turns := float64(b.Rollouts * b.Turns)
	f.CPUPerTurn = float64((processor() - cpu).Microseconds()) / turns
	f.Seconds = time.Since(start).Seconds()
	f.PerSecond, f.PeakMB = turns/f.Seconds, peak()
	cpu = processor()
	if err := b.bare(ctx, int(turns)); err != nil {
		return f, err
	}
	f.Floor = float64((processor() - cpu).Microseconds()) / turns
	return f, nil
}

// step is how many bytes each tool result adds, so that the mean context is Context.
func (b Bench) step() int { return 2 * b.Context / max(1, b.Turns) }

// rows are the tasks: the script asks for one call a turn, then answers.
func (b Bench) rows() iter.Seq2[datasets.Row, error] {
	turn := map[string]any{"content": "looking", "calls": []any{map[string]any{"name": "noop", "arguments": map[string]any{}}}}
	script := []any{}
	for range b.Turns - 1 {
		script = append(script, turn)
	}
	raw, err := json.Marshal(append(script, map[string]any{"content": "done"}))
	return func(yield func(datasets.Row, error) bool) {
		for i := range b.Rollouts {
			row := datasets.Row{ID: fmt.Sprint(i), Index: int64(i), Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "task")}}
			row.Hermes.Script = raw
			if !yield(row, err) {
				return
			}
		}
	}
}

// noop is a tool whose answers differ and are size bytes long.
func noop(size int) tool.Def {
	return tool.Def{
		Spec: trajectory.ToolSpec{Name: "noop", Description: "Answers with text.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
		Open: func(*tool.Scope) (tool.Handler, error) {
			n := 0
			return func(context.Context, json.RawMessage) (tool.Result, error) {
				n++
				return tool.Result{Text: fmt.Sprintf("%d %s", n, strings.Repeat("all work and no play ", size/21+1)[:max(0, size-3)])}, nil
			}, nil
		}}
}

// bare sends n plain requests of the same size.
func (b Bench) bare(ctx context.Context, n int) error {
	body, err := json.Marshal(map[string]any{"model": "fake", "hermes_script": []any{map[string]any{"content": "done"}},
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("all work and no play ", b.Context/21)}}})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.InFlight}}
	defer client.CloseIdleConnections()
	work := make(chan struct{})
	errs := make(chan error, b.InFlight)
	var all sync.WaitGroup
	for range b.InFlight {
		all.Go(func() {
			for range work {
				if err := post(ctx, client, b.Base+"/chat/completions", body); err != nil {
					errs <- err
					for range work { // let the sender end
					}
					return
				}
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
	close(errs)
	return <-errs
}

func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Choices []json.RawMessage }
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err == nil && len(answer.Choices) == 0 {
		err = fmt.Errorf("%s: no answer in %.200s", resp.Status, raw)
	}
	return err
}

// processor is the time that this process has spent on processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that this process has had resident, in MB.
func peak() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Maxrss) / 1024
}

// TempDir makes a folder for a benchmark's log.
func TempDir() (string, error) { return os.MkdirTemp("", "hermes-bench-") }

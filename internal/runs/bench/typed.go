package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hermes/internal/build"
	"hermes/trajectory/stats"
)

// typedRound is what one round gave: processor time in µs a turn.
type typedRound struct {
	wall, typed, floor, server float64
	limit                      float64 // answers a second of the bare loop
	request                    int     // bytes
}

// runTyped measures round after round: the command, then its floor.
func (b Bench) runTyped(ctx context.Context, f Figures) (Figures, error) {
	rows := filepath.Join(b.Dir, "tasks.jsonl")
	if err := b.writeRows(rows); err != nil {
		return f, err
	}
	var rounds []typedRound
	for n := range b.Rounds {
		run := fmt.Sprint("round-", n)
		args := b.args(rows, run)
		f.Command = strings.Join(append([]string{"hermes"}, args...), " ")
		r, err := b.typedRound(ctx, filepath.Join(b.Dir, run), args)
		if err != nil {
			return f, fmt.Errorf("%s: %w", f.Command, err)
		}
		f.PeakMB = peak()
		if err := b.typedFloor(ctx, &r); err != nil {
			return f, err
		}
		rounds = append(rounds, r)
	}
	turns := float64(b.Turns)
	over := func(of func(typedRound) float64) float64 {
		var list []float64
		for _, r := range rounds {
			list = append(list, of(r))
		}
		return median(list)
	}
	f.CPUPerTurn = over(func(r typedRound) float64 { return r.typed })
	f.CPUEach = f.CPUPerTurn * turns / 1e3
	f.Floor = over(func(r typedRound) float64 { return r.floor })
	f.FloorEach = f.Floor * turns / 1e3
	f.Times = over(func(r typedRound) float64 { return r.typed / r.floor })
	f.Seconds = over(func(r typedRound) float64 { return r.wall })
	f.PerSecond = float64(b.Rollouts) * turns / f.Seconds
	f.Request = rounds[len(rounds)-1].request
	f.ServerTurn = over(func(r typedRound) float64 { return r.server })
	f.ServerLimit = over(func(r typedRound) float64 { return r.limit })
	f.ServerBusy = f.PerSecond / f.ServerLimit
	if b.Latency > 0 {
		waves := (b.Rollouts + b.InFlight - 1) / b.InFlight
		f.Ideal = (time.Duration(waves*b.Turns) * b.Latency).Seconds()
		f.Ratio = f.Seconds / f.Ideal
	}
	return f, nil
}

// typedRound runs the command once.
func (b Bench) typedRound(ctx context.Context, dir string, args []string) (r typedRound, err error) {
	before, err := b.serverStats(ctx)
	if err != nil {
		return r, err
	}
	start := time.Now()
	cpu := everything()
	server := b.Typed.Server()
	if err := b.Typed.Hermes(ctx, args...); err != nil {
		return r, err
	}
	turns := float64(b.Rollouts * b.Turns)
	r.wall = time.Since(start).Seconds()
	r.typed = micros(everything()-cpu) / turns
	r.server = micros(b.Typed.Server()-server) / turns
	after, err := b.serverStats(ctx)
	if err != nil {
		return r, err
	}
	asked := after.Requests - before.Requests
	if err := b.meant(dir, asked); err != nil {
		return r, err
	}
	r.request = int((after.Bytes - before.Bytes) / asked)
	return r, nil
}

// typedFloor measures what the command is compared with.
func (b Bench) typedFloor(ctx context.Context, r *typedRound) (err error) {
	r.limit, r.floor, err = b.bare(ctx, r.request)
	if err != nil {
		return fmt.Errorf("bare requests: %w", err)
	}
	if b.Shape != "agentic" {
		return nil
	}
	each, err := b.commands(ctx)
	if err != nil {
		return fmt.Errorf("bare commands: %w", err)
	}
	r.floor = each / float64(b.Turns)
	return nil
}

// args are what is typed: nothing but what must be said, so that the defaults are measured.
func (b Bench) args(rows, run string) []string {
	args := []string{"batch", rows, "--model", "fake", "--base-url", b.Base, "--out", b.Dir, "--run", run}
	if b.InFlight != 64 {
		args = append(args, "--concurrency", fmt.Sprint(b.InFlight))
	}
	if b.Turns > 10 {
		args = append(args, "--max-turns", fmt.Sprint(b.Turns))
	}
	if b.Shape == "agentic" && b.Backend != build.AutoBackend {
		args = append(args, "--backend", b.Backend)
	}
	return args
}

// writeRows writes the tasks: a prompt each, of which no two are the same.
func (b Bench) writeRows(name string) error {
	var text []byte
	for i := range b.Rollouts {
		row, err := json.Marshal(map[string]any{"id": fmt.Sprint(i), "prompt": speech(i, b.step())})
		if err != nil {
			return err
		}
		text = append(append(text, row...), '\n')
	}
	return os.WriteFile(name, text, 0o600)
}

// TypedScript is what the model says in a shape that runs a command, as a line of a file for
// `hermes model fake --script`. In the shape batch it writes a list with the tool todo, whose answers are of the size
// of a step, changes an item of it in each further turn, and ends.
func (b Bench) TypedScript() ([]byte, error) {
	var turns []any
	for n := range b.Turns - 1 {
		call := todoCall("turn", fmt.Sprint("turn ", n), true)
		switch {
		case b.Shape == "agentic":
			call = agenticCall(n)
		case n == 0:
			call = todoCall("all", speech(0, b.step()), false)
		}
		turns = append(turns, map[string]any{"content": speech(n, answerBytes), "calls": []any{call}})
	}
	turns = append(turns, map[string]any{"content": speech(b.Turns, answerBytes), "repeat": true})
	return json.Marshal(map[string]any{"match": "", "turns": turns})
}

// serverStats are the counts of the model server.
func (b Bench) serverStats(ctx context.Context) (s struct{ Requests, Bytes int64 }, err error) {
	resp, err := send(ctx, http.DefaultClient, http.MethodGet, strings.TrimSuffix(b.Base, "/v1")+"/stats", nil)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// meant makes sure that what was measured is what was meant: every sample accepted, every
// answer asked for once.
func (b Bench) meant(dir string, asked int64) error {
	raw, err := os.ReadFile(filepath.Join(dir, "statistics.json"))
	if err != nil {
		return err
	}
	var s stats.Statistics
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	calls := int64(0)
	for _, t := range s.Tools {
		calls += int64(t.Success)
	}
	if want := int64(b.Rollouts * b.Turns); s.Accepted != int64(b.Rollouts) || asked != want || calls != want-s.Accepted {
		return fmt.Errorf("%d of %d samples were accepted, %d requests sent, %d calls succeeded; want %d and %d: the figures say nothing",
			s.Accepted, b.Rollouts, asked, calls, want, want-int64(b.Rollouts))
	}
	return nil
}

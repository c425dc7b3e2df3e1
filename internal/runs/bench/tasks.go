package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/build"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// speech is size bytes of text that begin with a number, so that no two are the same.
func speech(n, size int) string {
	size = max(4, size)
	var s strings.Builder
	s.Grow(size + len(build.BenchText))
	s.WriteString(strconv.Itoa(n))
	s.WriteString(": ")
	for s.Len() < size {
		s.WriteString(build.BenchText)
	}
	return s.String()[:size]
}

// script is what the model says.
func (b Bench) script() (json.RawMessage, error) {
	say := map[string]any{"content": speech(0, answerBytes), "repeat": true}
	if b.Shape != "tool" {
		return json.Marshal([]any{say})
	}
	call := map[string]any{"content": speech(0, answerBytes), "calls": []any{map[string]any{"name": "noop", "arguments": map[string]any{}}}}
	var turns []any
	for range b.Turns - 1 {
		turns = append(turns, call)
	}
	return json.Marshal(append(turns, say))
}

// rows are the tasks. Where the model takes its time the first ones come one after the
// other, see stagger.
func (b Bench) rows(ctx context.Context) iter.Seq2[datasets.Row, error] {
	script, err := b.script()
	return func(yield func(datasets.Row, error) bool) {
		start := time.Now()
		for i := range b.Rollouts {
			if i < b.InFlight && b.Latency > 0 {
				t := time.NewTimer(time.Until(start.Add(b.stagger() * time.Duration(i) / time.Duration(b.InFlight))))
				select {
				case <-t.C:
				case <-ctx.Done():
					t.Stop()
				}
			}
			row := datasets.Row{ID: fmt.Sprint(i), Index: int64(i), Prompt: []trajectory.Message{trajectory.Text(trajectory.User, speech(i, b.step()))}}
			row.Hermes.Script = script
			if !yield(row, err) {
				return
			}
		}
	}
}

// silent is an environment that judges nothing.
type silent struct{}

func (silent) Task(row datasets.Row) (envs.Task, error) {
	return envs.Task{Row: row, Messages: row.Prompt}, nil
}

func (silent) Score(context.Context, envs.Task, envs.World, envs.Episode) (trajectory.Score, error) {
	return trajectory.Score{}, envs.ErrUnscored
}

// user is an environment that speaks until the model has answered turns times.
type user struct {
	silent
	step, turns int
}

func (u user) Respond(_ context.Context, _ envs.Task, _ envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	said := (len(ep.Trace.Nodes) + 1) / 2
	if said >= u.turns {
		return nil, nil
	}
	return []trajectory.Message{trajectory.Text(trajectory.User, speech(said, u.step))}, nil
}

// tools plans one tool whose answers differ.
func (b Bench) tools(context.Context, []string, func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
	size := b.step()
	return []tool.Def{{
		Spec: trajectory.ToolSpec{Name: "noop", Description: "Answers with text.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
		Open: func(*tool.Scope) (tool.Handler, error) {
			n := 0
			return func(context.Context, json.RawMessage) (tool.Result, error) {
				n++
				return tool.Result{Text: speech(n, size)}, nil
			}, nil
		}}}, nil, nil
}

// todoCall is a call of the tool todo that writes one item: no two of the same turns in a row,
// at which a rollout would end.
func todoCall(id, content string, merge bool) map[string]any {
	item := map[string]any{"id": id, "content": content, "status": "pending"}
	return map[string]any{"name": "todo", "arguments": map[string]any{"todos": []any{item}, "merge": merge}}
}

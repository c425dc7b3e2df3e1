package bfcl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// turn is one of the user's turns, with the calls that it wants as Python text. The
// leaderboard runs the calls on its own implementations of the APIs and compares their states.
// Here the calls themselves are compared, turn by turn: another way to the same state is not
// accepted, and no call has a result.
type turn struct {
	Messages []json.RawMessage `json:"messages"`
	Gold     []string          `json:"gold"`

	calls []pythonCall
}

func joinTurns(question [][]json.RawMessage, truth json.RawMessage) ([]turn, error) {
	var gold [][]string
	if err := json.Unmarshal(truth, &gold); err != nil {
		return nil, fmt.Errorf("ground_truth: want a list of turns, each a list of calls as text: %w", err)
	}
	if len(gold) != len(question) {
		return nil, fmt.Errorf("%d turns, but calls for %d", len(question), len(gold))
	}
	out := make([]turn, len(gold))
	for i := range gold {
		out[i] = turn{Messages: question[i], Gold: gold[i]}
	}
	return out, nil
}

func readTurns(raw json.RawMessage, list []function) ([]turn, error) {
	var out []turn
	if err := json.Unmarshal(raw, &out); err != nil || len(out) == 0 {
		return nil, errors.Join(errors.New("turns: want a list"), err)
	}
	byName := map[string]function{}
	for _, f := range list {
		byName[f.Name] = f
	}
	calls := 0
	for i := range out {
		for _, text := range out[i].Gold {
			c, err := parseCall(text)
			if err != nil {
				return nil, fmt.Errorf("turn %d: %s: %w", i+1, text, err)
			}
			f, ok := byName[c.name]
			if !ok {
				return nil, fmt.Errorf("turn %d: no function %s among those of the row", i+1, c.name)
			}
			if err := c.named(f); err != nil {
				return nil, fmt.Errorf("turn %d: %s: %w", i+1, text, err)
			}
			out[i].calls = append(out[i].calls, c)
			calls++
		}
	}
	if calls == 0 {
		return nil, errors.New("turns: no call is wanted in any: doing nothing would be right")
	}
	return out, nil
}

// UnmarshalJSON keeps the order of the parameters, by which Python's positional arguments
// are named.
func (f *function) UnmarshalJSON(raw []byte) error {
	type plain function
	if err := json.Unmarshal(raw, (*plain)(f)); err != nil {
		return err
	}
	var shape struct {
		Parameters struct {
			Properties json.RawMessage `json:"properties"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(shape.Parameters.Properties))
	if _, err := d.Token(); err != nil {
		return nil // no parameters
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		f.order = append(f.order, name)
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	return nil
}

// named gives positional arguments their names.
func (c *pythonCall) named(f function) error {
	if len(c.positional) > len(f.order) {
		return fmt.Errorf("%d arguments, %s has %d parameters", len(c.positional), f.Name, len(f.order))
	}
	for i, v := range c.positional {
		c.args[f.order[i]] = v
	}
	c.positional = nil
	return nil
}

// Respond says what the user says next, once the model has ended its turn.
func (e *Env) Respond(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	x := t.Hidden.(task)
	n := len(callsByTurn(x, ep))
	if n >= len(x.turns) {
		return nil, nil
	}
	var out []trajectory.Message
	for _, raw := range x.turns[n].Messages {
		var m struct{ Role, Content string }
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("turn %d: %w", n+1, err)
		}
		out = append(out, trajectory.Text(trajectory.Role(m.Role), m.Content))
	}
	if len(out) == 0 { // the turn brings functions alone
		out = append(out, trajectory.Text(trajectory.User, "Please go on."))
	}
	return out, nil
}

// callsByTurn are the model's calls for each of the user's turns that it has ended.
func callsByTurn(x task, ep envs.Episode) [][]trajectory.Call {
	var out [][]trajectory.Call
	var now []trajectory.Call
	for m := range ep.Trace.Prefix().Messages() {
		if m.Role != trajectory.Assistant {
			continue
		}
		now = append(now, m.Calls...)
		if len(m.Calls) == 0 {
			out, now = append(out, now), nil
		}
	}
	if len(now) > 0 && len(out) < len(x.turns) { // cut off by a limit
		out = append(out, now)
	}
	return out
}

func scoreTurns(x task, ep envs.Episode) trajectory.Score {
	made := callsByTurn(x, ep)
	s := trajectory.Score{Parts: map[string]float64{}, Metrics: map[string]float64{"turns_right": 0}}
	right := 0
	for i, t := range x.turns {
		var calls []trajectory.Call
		if i < len(made) {
			calls = made[i]
		}
		if why := t.misfit(calls, x.functions); why == "" {
			right++
		} else if s.Detail == "" {
			s.Detail = fmt.Sprintf("turn %d: %s", i+1, why)
		}
	}
	s.Metrics["turns_right"] = float64(right) / float64(len(x.turns))
	if right == len(x.turns) {
		s.Reward = 1
	}
	s.Parts[category(x.row)] = s.Reward
	return s
}

// misfit says why calls are not those that the turn wants, in any order; "": they are.
func (t turn) misfit(calls []trajectory.Call, list []function) string {
	if len(calls) != len(t.calls) {
		return fmt.Sprintf("%d calls, want %d", len(calls), len(t.calls))
	}
	used := make([]bool, len(calls))
	for _, g := range t.calls {
		found := false
		for j, c := range calls {
			if used[j] || dotless(g.name) != dotless(c.Name) || !g.same(c.Arguments, list) {
				continue
			}
			used[j], found = true, true
			break
		}
		if !found {
			return "no call as wanted of " + g.name
		}
	}
	return ""
}

// same compares arguments, those left out with the default of the schema. Equality is an
// equivalence, so that taking the first call that fits finds a matching where there is one.
func (c pythonCall) same(arguments string, list []function) bool {
	given := map[string]any{}
	if arguments != "" && json.Unmarshal([]byte(arguments), &given) != nil {
		return false
	}
	want := maps.Clone(c.args)
	for _, f := range list {
		if f.Name != c.name {
			continue
		}
		props, _ := f.Parameters["properties"].(map[string]any)
		for name, p := range props {
			m, _ := p.(map[string]any)
			d, ok := m["default"]
			if !ok {
				continue
			}
			for _, args := range []map[string]any{want, given} {
				if _, there := args[name]; !there {
					args[name] = d
				}
			}
		}
	}
	return reflect.DeepEqual(want, given)
}

// playTurns makes the wanted calls of each turn, then ends it.
func playTurns(x task) ([]trajectory.Message, error) {
	var out []trajectory.Message
	for _, t := range x.turns {
		var m trajectory.Message
		for _, c := range t.calls {
			m.Calls = append(m.Calls, trajectory.Call{Name: dotless(c.name), Arguments: tool.JSON(c.args)})
		}
		if len(m.Calls) > 0 {
			out = append(out, m)
		}
		out = append(out, trajectory.Text(trajectory.Assistant, "Done."))
	}
	return out, nil
}

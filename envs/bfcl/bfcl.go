// Package bfcl is tool-call correctness: rows in the form of the Berkeley Function Calling
// Leaderboard, a question with functions, and the calls that answer it.
//
// The functions of a row are the model's tools. They are not executed: a call is answered
// with a neutral text, and only the calls of the model's first answer count, as there.
// Matching is that of the grader bfcl (types, then values, parallel calls in any order). Rows
// without gold calls (irrelevance) want no call. The reward is 1 or 0.
//
// Where no call is right, doing nothing is. Training on that pays silence; with abstain the
// model says it by its own call.
package bfcl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/internal/schema"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.bfcl of a run file.
type Config struct {
	Dataset []string `yaml:"dataset" help:"files with questions, or folders of them, for training; needed"`
	Eval    []string `yaml:"eval" help:"the same for evaluation"`
	Abstain bool     `yaml:"abstain" help:"offer a call that says that no function fits, and want it where no call is right"`
	Greedy  bool     `yaml:"greedy" help:"match parallel calls as the leaderboard does, which refuses some valid sets"`
	APIs    string   `yaml:"apis" help:"folder with the functions of multi-turn questions (default: multi_turn_func_doc beside them)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("bfcl", "calls of functions in the form of the Berkeley leaderboard, matched but not executed", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct {
	c     Config
	match grade.Spec
}

// New checks the config.
func New(c Config) (*Env, error) {
	if len(c.Dataset) == 0 {
		return nil, errors.New("no rows: set dataset to files with questions (and answers beside them)")
	}
	name := "bfcl"
	if c.Greedy {
		name = "bfcl-greedy"
	}
	match, err := grade.Parse(name)
	return &Env{c: c, match: match}, err
}

// Rows joins the questions of a split with their answers.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	names := e.c.Dataset
	if split == envs.Eval {
		names = e.c.Eval
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("split %s: set envs.bfcl.eval to files with questions", split)
	}
	list, err := load(names, e.c.APIs)
	if err != nil {
		return nil, err
	}
	return envs.Made("bfcl", split, len(list), o, func(i int) any { return list[i] })
}

// task is what a row hides.
type task struct {
	gold      []map[string]map[string]json.RawMessage
	row       datasets.Row // as the grader takes it
	functions []function
	turns     []turn // of a multi-turn row, the first one included
}

// function is one of the row's functions.
type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`

	order []string // of the parameters, as they are written
}

// abstain is the call that says that none of the others fits.
const abstain = "no_function_fits"

// Task is the question with its functions as tools.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	t, err := e.read(r)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	return envs.Task{Row: r, Messages: r.Prompt, Hidden: t}, nil
}

func (e *Env) read(r datasets.Row) (task, error) {
	t := task{row: r}
	if len(r.Prompt) == 0 {
		return t, errors.New("no question")
	}
	if err := json.Unmarshal(r.Extra["function"], &t.functions); err != nil || len(t.functions) == 0 {
		return t, errors.Join(errors.New("function: want a list of functions"), err)
	}
	seen := map[string]bool{abstain: e.c.Abstain}
	for _, f := range t.functions {
		if f.Name == "" || seen[dotless(f.Name)] {
			return t, fmt.Errorf("function %q: want its own name", f.Name)
		}
		seen[dotless(f.Name)] = true
	}
	if raw, ok := r.Extra["turns"]; ok {
		var err error
		t.turns, err = readTurns(raw, t.functions)
		return t, err
	}
	if err := json.Unmarshal(r.Extra["ground_truth"], &t.gold); err != nil {
		return t, fmt.Errorf("ground_truth: want a list of {function: {parameter: [accepted values]}}: %w", err)
	}
	_, err := e.match.Bind(r)
	return t, err
}

// dotless is a name as clients take it that forbid dots; the grader takes both for one.
func dotless(name string) string { return strings.ReplaceAll(name, ".", "_") }

// Toolsets are none beside the row's functions.
func (e *Env) Toolsets() []string { return []string{} }

// Tools are the row's functions, which do nothing.
func (e *Env) Tools(_ context.Context, t envs.Task, _ envs.World) ([]tool.Def, error) {
	list := slices.Clone(t.Hidden.(task).functions)
	if e.c.Abstain {
		list = append(list, function{Name: abstain, Description: "Says that none of the other functions can answer the question, or that a value which they need is missing.",
			Parameters: map[string]any{"type": "dict", "properties": map[string]any{}}})
	}
	var defs []tool.Def
	for _, f := range list {
		raw, err := json.Marshal(schema.Standard(f.Parameters, "string"))
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", f.Name, err)
		}
		defs = append(defs, tool.Def{Spec: trajectory.ToolSpec{Name: dotless(f.Name), Description: f.Description, Parameters: raw}, Toolset: "bfcl",
			Open: func(*tool.Scope) (tool.Handler, error) {
				return func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Result{Text: neutral}, nil }, nil
			}})
	}
	return defs, nil
}

// neutral answers every call.
const neutral = `{"status":"received"}`

// Score compares the calls of the first answer with the gold ones.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	x := t.Hidden.(task)
	if x.turns != nil {
		return scoreTurns(x, ep), nil
	}
	calls, said := firstAnswer(ep)
	s := trajectory.Score{Metrics: map[string]float64{"calls": float64(len(calls))}}
	if !said {
		s.Detail = "no answer"
		return s, nil
	}
	if e.c.Abstain && len(x.gold) == 0 {
		s.Detail = "no function fits, which no call says"
		if len(calls) == 1 && calls[0].Name == abstain {
			s.Reward, s.Detail = 1, "says that no function fits"
		}
		return s, nil
	}
	g, err := e.match.Bind(x.row)
	if err != nil {
		return s, err
	}
	only := trajectory.New(trajectory.ModeText, nil)
	if _, err := only.Commit(trajectory.Turn{Finish: trajectory.FinishCalls, Sampled: trajectory.Delta{Message: trajectory.Message{Role: trajectory.Assistant, Calls: calls}}}); err != nil {
		return s, fmt.Errorf("first answer: %w", err)
	}
	ep.Trace = only
	got, err := g.Grade(ctx, w, ep)
	s.Reward, s.Detail = got.Reward, got.Detail
	s.Parts = map[string]float64{category(x.row): s.Reward}
	return s, err
}

// category is the kind of a row: simple, parallel …
func category(r datasets.Row) string {
	var c string
	if json.Unmarshal(r.Extra["category"], &c) != nil {
		return "other"
	}
	return c
}

func firstAnswer(ep envs.Episode) (calls []trajectory.Call, said bool) {
	for m := range ep.Trace.Prefix().Messages() {
		if m.Role == trajectory.Assistant {
			return m.Calls, true
		}
	}
	return nil, false
}

// Oracle makes the gold calls, the first accepted value of each parameter.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	x := t.Hidden.(task)
	if x.turns != nil {
		return playTurns(x)
	}
	var m trajectory.Message
	for _, one := range x.gold {
		for name, params := range one {
			args := map[string]any{}
			known := x.parameters(name)
			for p, raw := range params {
				if _, ok := known[p]; !ok {
					continue // a slip of the answers: no call may have it
				}
				var accepted []any
				if err := exact(raw, &accepted); err != nil {
					return nil, fmt.Errorf("row %s: %s.%s: %w", t.Row.ID, name, p, err)
				}
				if v, given := choose(accepted); given {
					args[p] = v
				}
			}
			m.Calls = append(m.Calls, trajectory.Call{Name: dotless(name), Arguments: tool.JSON(args)})
		}
	}
	if len(m.Calls) > 0 {
		return []trajectory.Message{m}, nil
	}
	if e.c.Abstain {
		return []trajectory.Message{{Calls: []trajectory.Call{{Name: abstain, Arguments: "{}"}}}}, nil
	}
	return []trajectory.Message{trajectory.Text(trajectory.Assistant, "None of the functions can answer this.")}, nil
}

// parameters are those of the row's function called name.
func (x task) parameters(name string) map[string]any {
	for _, f := range x.functions {
		if dotless(f.Name) == dotless(name) {
			props, _ := f.Parameters["properties"].(map[string]any)
			return props
		}
	}
	return nil
}

// choose takes the first accepted value that is not the mark for "may be left out".
func choose(accepted []any) (any, bool) {
	for _, v := range accepted {
		if v != "" {
			return settle(v), true
		}
	}
	return nil, false
}

// settle chooses within objects, where each key holds a list of accepted values.
func settle(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, a := range v {
			list, ok := a.([]any)
			if !ok {
				out[k] = a
			} else if one, given := choose(list); given {
				out[k] = one
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = settle(v[i])
		}
		return out
	}
	return v
}

// exact decodes with numbers as they are written: 5.0 is a float here.
func exact(raw []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	return d.Decode(into)
}

// Hidden are the gold calls as they stand in the answers.
func (e *Env) Hidden(t envs.Task) []string {
	x := t.Hidden.(task)
	var out []string
	for _, one := range x.gold {
		out = append(out, tool.JSON(one))
	}
	for _, turn := range x.turns {
		out = append(out, turn.Gold...)
	}
	return out
}

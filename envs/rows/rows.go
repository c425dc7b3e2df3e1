// Package rows is the environment of plain datasets: the row says what the task is,
// what the box holds, and how the result is judged.
//
// A row is judged by the first of: checker (a command in the box), expected_tools,
// expected (text, /pattern/, or a list of texts of which one suffices), answer,
// ground_truth, solution, rubric (by a model, where the run has a judge). A row with none of them is kept without a score.
package rows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// Options are what a run adds to every row.
type Options struct {
	System    string               // in the data
	Ephemeral string               // seen by the model, never in the data
	Prefill   []trajectory.Message // seen by the model, never in the data
	Image     string               // the run's, when the row names none
	Toolsets  []string             // nil: drawn by the run
	Judge     bool                 // the run has a model that judges rubrics
	Grader    string               // "": as the package says; none; exact, contains, number, regexp: how `answer` is read; rubric: by the judge before all else
}

// Env is the environment.
type Env struct{ o Options }

// New checks the options.
func New(o Options) (*Env, error) {
	switch o.Grader {
	case "", "none", "exact", "contains", "number", "regexp", "rubric":
		return &Env{o: o}, nil
	}
	return nil, fmt.Errorf("grader %q: want none, exact, contains, number, regexp or rubric", o.Grader)
}

// Task is the row's task: system prompt, ephemeral prompt, prefill, then its messages.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	if len(row.Prompt) == 0 {
		return envs.Task{}, fmt.Errorf("row %s: no task", row.ID)
	}
	g, err := e.grader(row.Scoring)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	h := row.Hermes
	t := envs.Task{Row: row, Image: cmp.Or(h.Image, e.o.Image), Dir: h.Cwd, Env: h.Env, Files: h.Files, Toolsets: h.Toolsets, Artifacts: h.Artifacts, Hidden: g}
	t.Messages = e.opening(row)
	return t, nil
}

func (e *Env) opening(row datasets.Row) []trajectory.Message {
	system := e.o.System
	if row.Hermes.System != nil {
		system = *row.Hermes.System
	}
	prompt := row.Prompt
	var out []trajectory.Message
	if prompt[0].Role == trajectory.System {
		if row.Hermes.System == nil {
			system = prompt[0].Content()
		}
		prompt = prompt[1:]
	}
	if system != "" {
		out = append(out, trajectory.Text(trajectory.System, system))
	}
	if e.o.Ephemeral != "" { // one system message: many templates allow no second one
		hidden := trajectory.Part{Kind: trajectory.PartText, Text: e.o.Ephemeral, Ephemeral: true}
		if system == "" {
			out = append(out, trajectory.Message{Role: trajectory.System, Parts: []trajectory.Part{hidden}, Ephemeral: true})
		} else {
			hidden.Text = "\n\n" + hidden.Text
			out[0].Parts = append(out[0].Parts, hidden)
		}
	}
	for _, list := range [][]trajectory.Message{e.o.Prefill, row.Hermes.Prefill} {
		for _, m := range list {
			m.Ephemeral = true
			out = append(out, m)
		}
	}
	return append(out, prompt...)
}

// NeedsBox says that the row's checker runs in a box.
func (e *Env) NeedsBox(t envs.Task) bool {
	return len(t.Row.Scoring.Checker) > 0 && e.o.Grader != "none" && e.o.Grader != "rubric"
}

// Score judges the episode, or returns [envs.ErrUnscored].
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	g, ok := t.Hidden.(grade.Grader)
	if !ok {
		return trajectory.Score{}, envs.ErrUnscored
	}
	if ep.Stop.Reason == trajectory.StopFaultyBox {
		return trajectory.Score{Detail: ep.Stop.Detail}, nil // the model broke its own box: zero
	}
	return g.Grade(ctx, w, ep)
}

func (e *Env) grader(s datasets.Scoring) (any, error) {
	if e.o.Grader == "none" {
		return nil, nil
	}
	switch {
	case e.o.Grader == "rubric":
		return rubric(s)
	case len(s.Checker) > 0:
		return checker(s.Checker)
	case len(s.ExpectedTools) > 0:
		return calls(s.ExpectedTools)
	case len(s.Expected) > 0:
		return expected(s.Expected)
	}
	for _, raw := range []json.RawMessage{s.Answer, s.GroundTruth, s.Solution} {
		if len(raw) > 0 {
			return e.answer(raw)
		}
	}
	if e.o.Judge {
		return rubric(s)
	}
	return nil, nil
}

// rubric has the judge decide, with a gold answer at hand where there is one. A row that
// has the gold answer alone is judged by that.
func rubric(s datasets.Scoring) (any, error) {
	var o grade.RubricOptions
	for _, raw := range []json.RawMessage{s.Answer, s.GroundTruth, s.Solution} {
		if len(raw) > 0 && o.Reference == "" {
			o.Reference = plain(raw)
		}
	}
	if len(s.Rubric) > 0 {
		criteria, err := grade.ParseRubric(s.Rubric)
		if err != nil {
			return nil, err
		}
		return grade.Rubric(criteria, o)
	}
	if o.Reference == "" {
		return nil, nil
	}
	return grade.Rubric([]grade.Criterion{{Text: "The answer says the same as the reference in everything that the task asks for."}}, o)
}

// checker is shell text, an argv, or {"command": …, "timeout": seconds}.
func checker(raw json.RawMessage) (any, error) {
	if text, ok := asText(raw); ok {
		return grade.Command(backends.Cmd{Shell: text}), nil
	}
	var argv []string
	if err := json.Unmarshal(raw, &argv); err != nil || len(argv) == 0 {
		return nil, fmt.Errorf("checker %s: want shell text or a list of words", clip(raw))
	}
	return grade.Command(backends.Cmd{Argv: argv}), nil
}

func calls(raw json.RawMessage) (any, error) {
	var want []grade.WantCall
	if err := json.Unmarshal(raw, &want); err == nil && len(want) > 0 && want[0].Name != "" {
		return grade.Calls(want, false), nil
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil || len(names) == 0 {
		return nil, fmt.Errorf("expected_tools %s: want names or a list of {name, arguments}", clip(raw))
	}
	want = nil
	for _, n := range names {
		want = append(want, grade.WantCall{Name: n})
	}
	return grade.Calls(want, false), nil
}

func expected(raw json.RawMessage) (any, error) {
	var list []string
	if text, ok := asText(raw); ok {
		list = []string{text}
	} else if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("expected %s: want text or a list of texts", clip(raw))
	}
	var gs []grade.Grader
	for _, text := range list {
		if len(text) > 2 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
			g, err := grade.Regexp(text[1 : len(text)-1])
			if err != nil {
				return nil, err
			}
			gs = append(gs, g)
			continue
		}
		gs = append(gs, grade.Contains(text))
	}
	return best(gs), nil
}

// best takes the highest of several graders.
func best(gs []grade.Grader) grade.Grader {
	if len(gs) == 1 {
		return gs[0]
	}
	return grade.Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		var top trajectory.Score
		for i, g := range gs {
			s, err := g.Grade(ctx, w, ep)
			if err != nil {
				return s, err
			}
			if i == 0 || s.Reward > top.Reward {
				top = s
			}
		}
		return top, nil
	})
}

// answer reads gold as a number where it is one or ends in "#### N", else as text.
func (e *Env) answer(raw json.RawMessage) (any, error) {
	text := plain(raw)
	switch e.o.Grader {
	case "exact":
		return grade.Exact(text), nil
	case "contains":
		return grade.Contains(text), nil
	case "regexp":
		return grade.Regexp(text)
	case "number":
		return grade.Number(text)
	}
	if strings.Contains(text, "####") || isNumber(text) {
		return grade.Number(text)
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the answer is empty")
	}
	return grade.Contains(text), nil
}

func isNumber(text string) bool {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", "")
	return text != "" && json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
}

// plain is the text of a JSON value: itself if it is text.
func plain(raw json.RawMessage) string {
	if text, ok := asText(raw); ok {
		return text
	}
	return string(bytes.TrimSpace(raw))
}

func asText(raw json.RawMessage) (string, bool) {
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func clip(raw []byte) string {
	if len(raw) > 80 {
		return string(raw[:80]) + "…"
	}
	return string(raw)
}

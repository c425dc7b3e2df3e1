// Package rows is the environment of plain datasets: the row says what the task is,
// what the box holds, and how the result is judged.
//
// Without a grader of the run, a row is judged by the first of: checker (a command in the
// box), expected_tools, expected (text, /pattern/, or a list of texts of which one suffices),
// answer, ground_truth, solution, rubric (by a model, where the run has a judge). A row with
// none of them is kept without a score.
package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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
	Judge     bool                 // the run has a model that judges rubrics
	Grader    grade.Spec           // zero: as the package says
}

// Env is the environment.
type Env struct{ o Options }

// New returns the environment.
func New(o Options) *Env { return &Env{o: o} }

// Task is the row's task: system prompt, ephemeral prompt, prefill, then its messages.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	if len(row.Prompt) == 0 {
		return envs.Task{}, fmt.Errorf("row %s: no task", row.ID)
	}
	g, err := e.grader(row)
	if err != nil && !errors.Is(err, envs.ErrUnscored) {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	h := row.Hermes
	t := envs.Task{Row: row, Image: cmp.Or(h.Image, e.o.Image), Dir: h.Cwd, Env: h.Env, Files: h.Files, Toolsets: h.Toolsets, Artifacts: h.Artifacts, Hidden: g,
		Verify: envs.VerifyOf(row, ""), Processes: h.Processes == "keep"}
	if most := e.o.Grader.Time(row); most > 0 {
		t.ScoreTime = most + time.Minute
	}
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

// NeedsBox says that grading the row runs something in a box.
func (e *Env) NeedsBox(t envs.Task) bool {
	return e.o.Grader.NeedsBox(t.Row)
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
	s, err := g.Grade(ctx, w, ep)
	if key, ok := e.o.Grader.Key(t.Row, grade.Answer(ep)); err == nil && ok && len(key) <= longestVote {
		s.Answer = key
	}
	return s, err
}

// longestVote is how long an answer may be that majorities vote on: two essays never agree.
const longestVote = 200

func (e *Env) grader(row datasets.Row) (grade.Grader, error) {
	if e.o.Grader.IsZero() && !e.o.Judge && e.o.Grader.NeedsJudge(row) {
		return nil, envs.ErrUnscored // the row would need a judge
	}
	return e.o.Grader.Bind(row)
}

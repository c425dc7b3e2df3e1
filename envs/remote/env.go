package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// pageRows is how many rows are asked for at once, and maxRows how many bytes of them are
// held.
const (
	pageRows = 1000
	maxRows  = 512 << 20
)

// rowKey is the key under which a row of a program that makes its own tasks is kept as it
// was.
const rowKey = "row"

// Rows are the program's, or those of the dataset that the settings name.
func (e *Env) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	if d, err := e.c.stored().Open(ctx, Name, split, o); d != nil || err != nil {
		return d, err
	}
	var b bytes.Buffer
	for offset := int64(0); ; {
		limit := int64(pageRows)
		if o.Limit > 0 && !o.Shuffle {
			limit = min(limit, o.Limit-offset)
		}
		n, more, err := e.page(ctx, &b, split, offset, limit)
		if err != nil {
			return nil, err
		}
		offset += int64(n)
		if !more || n == 0 || o.Limit > 0 && !o.Shuffle && offset >= o.Limit {
			return datasets.Inline(e.hello.Name+":"+string(split), b.String(), o)
		}
		if b.Len() > maxRows {
			return nil, broken("the environment's rows have more than %d bytes: put them into a file and set dataset", maxRows)
		}
	}
}

// page appends rows as JSON lines.
func (e *Env) page(ctx context.Context, b *bytes.Buffer, split envs.Split, offset, limit int64) (n int, more bool, err error) {
	raw, err := e.link.call(ctx, "rows", map[string]any{"split": split, "offset": offset, "limit": limit}, &scene{})
	if err != nil {
		return 0, false, err
	}
	var page struct {
		Rows []map[string]json.RawMessage `json:"rows"`
		More bool                         `json:"more"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return 0, false, broken("the environment's rows: want {\"rows\": [{…}], \"more\": false}: %w", err)
	}
	for i, row := range page.Rows {
		if row == nil {
			return 0, false, broken("the environment's rows: row %d is null", offset+int64(i))
		}
		line, err := compact(e.line(row))
		if err != nil {
			return 0, false, err
		}
		b.Write(line)
	}
	return len(page.Rows), page.More, nil
}

// line is a row as datasets reads it. A program that makes its own tasks may have rows of
// any form: they are wrapped, with the keys that tell gold answers beside them.
func (e *Env) line(row map[string]json.RawMessage) map[string]json.RawMessage {
	if !e.hello.can("task") {
		return row
	}
	out := map[string]json.RawMessage{rowKey: text(""), "prompt": text("a task of " + e.hello.Name)}
	for _, key := range []string{"id", "answer", "expected", "solution"} {
		if v, ok := row[key]; ok {
			out[key] = v
		}
	}
	raw, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("JSON that was read cannot be written: %v", err))
	}
	out[rowKey] = raw
	return out
}

// rowOf is the row as the program gave it, or as the dataset has it.
func (e *Env) rowOf(row datasets.Row) (json.RawMessage, error) {
	if raw, ok := row.Extra[rowKey]; ok && e.hello.can("task") && e.c.Dataset == "" {
		return raw, nil
	}
	return rowJSON(row)
}

// rowJSON puts a row together again.
func rowJSON(row datasets.Row) (json.RawMessage, error) {
	raw, err := json.Marshal(row.Scoring)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for k, v := range row.Extra {
		all[k] = v
	}
	all["id"] = row.ID
	if len(row.Prompt) == 1 && row.Prompt[0].Role == trajectory.User {
		all[row.Task] = row.Prompt[0].Content()
	} else {
		all["messages"] = sent(row.Prompt)
	}
	return json.Marshal(all)
}

// ask calls a method and decodes its result.
func (e *Env) ask(ctx context.Context, method string, params any, s *scene, into any) error {
	raw, err := e.link.call(ctx, method, params, s)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return broken("the environment's %s answered %s: %w", method, clip(string(raw), 200), err)
	}
	return nil
}

// taskParam is a task for the program.
type taskParam struct {
	ID     string          `json:"id"`
	Row    json.RawMessage `json:"row"`
	Hidden json.RawMessage `json:"hidden,omitempty"`
}

// known is what this side keeps of a task.
type known struct {
	param    taskParam
	needsBox bool
}

// taskResult is what the program says of a task.
type taskResult struct {
	Prompt    string            `json:"prompt"`
	Messages  []message         `json:"messages"`
	Image     string            `json:"image"`
	Dir       string            `json:"dir"`
	Env       map[string]string `json:"env"`
	Files     map[string]string `json:"files"`
	Toolsets  []string          `json:"toolsets"`
	Artifacts []string          `json:"artifacts"`
	NeedsBox  *bool             `json:"needs_box"`
	Hidden    json.RawMessage   `json:"hidden"`
}

// Task asks the program, or reads the row as any dataset's.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	raw, err := e.rowOf(row)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	k := &known{param: taskParam{ID: row.ID, Row: raw}, needsBox: e.hello.NeedsBox || e.hello.can("prepare")}
	if !e.hello.can("task") {
		t, err := e.plain.Task(row)
		t.Hidden = k
		return t, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.c.Timeout+time.Minute) // Task has no context; the wait for a place is in it
	defer cancel()
	var r taskResult
	if err := e.ask(ctx, "task", map[string]any{"task": k.param}, &scene{}, &r); err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	if r.NeedsBox != nil {
		k.needsBox = *r.NeedsBox
	}
	k.param.Hidden = r.Hidden
	t := envs.Task{Row: row, Image: r.Image, Dir: r.Dir, Env: r.Env, Files: r.Files, Toolsets: r.Toolsets, Artifacts: r.Artifacts, Hidden: k}
	t.Messages, err = received(r.Messages)
	if err != nil {
		return t, broken("row %s: the environment's task: %w", row.ID, err)
	}
	if r.Prompt != "" {
		t.Messages = append(t.Messages, trajectory.Text(trajectory.User, r.Prompt))
	}
	if len(t.Messages) == 0 {
		return t, broken("row %s: the environment's task has neither messages nor a prompt", row.ID)
	}
	return t, nil
}

func knownOf(t envs.Task) *known {
	k, ok := t.Hidden.(*known)
	if !ok {
		panic("remote: a task that was not made by this environment")
	}
	return k
}

// NeedsBox is as the task says, else as the program said at its start.
func (e *Env) NeedsBox(t envs.Task) bool { return knownOf(t).needsBox }

// Toolsets are those of a run that asks for none.
func (e *Env) Toolsets() []string { return e.hello.Toolsets }

// scoreResult is a number, or an object.
type scoreResult struct{ trajectory.Score }

func (s *scoreResult) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.Reward) == nil && string(raw) != "null" {
		return nil
	}
	var x struct {
		Reward  *float64           `json:"reward"`
		Parts   map[string]measure `json:"rewards"`
		Metrics map[string]measure `json:"metrics"`
		Detail  string             `json:"detail"`
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	if x.Reward == nil {
		return errors.New("there is no reward")
	}
	s.Score = trajectory.Score{Reward: *x.Reward, Parts: numbers(x.Parts), Metrics: numbers(x.Metrics), Detail: clip(x.Detail, 2000)}
	return nil
}

func numbers(m map[string]measure) map[string]float64 {
	if m == nil {
		return nil
	}
	out := make(map[string]float64, len(m))
	for name, v := range m {
		out[name] = float64(v)
	}
	return out
}

// measure is a number beside the reward. A boolean counts 0 or 1: a remark on the side must
// not cost the sample.
type measure float64

func (m *measure) UnmarshalJSON(raw []byte) error {
	var yes bool
	if json.Unmarshal(raw, &yes) == nil && string(raw) != "null" {
		*m = 0
		if yes {
			*m = 1
		}
		return nil
	}
	return json.Unmarshal(raw, (*float64)(m))
}

// Score asks the program, which may work in the box meanwhile.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	st := e.stateOf(w)
	st.mu.Lock()
	defer st.mu.Unlock()
	var r scoreResult
	err := e.ask(ctx, "score", e.params(t, w, st, episode(ep)), &scene{world: w}, &r)
	return r.Score, err
}

// ScoreGroup lets the program compare the samples of a group, where it can.
func (e *Env) ScoreGroup(ctx context.Context, t envs.Task, eps []envs.Episode, scores []trajectory.Score) error {
	if !e.hello.can("score_group") {
		return nil
	}
	list := make([]episodeParam, 0, len(eps))
	for i, ep := range eps {
		p := episode(ep)
		p.ID = fmt.Sprintf("sample %d", i)
		list = append(list, p)
	}
	var r struct {
		Scores []scoreResult `json:"scores"`
	}
	if err := e.ask(ctx, "score_group", map[string]any{"task": knownOf(t).param, "episodes": list, "scores": scores}, &scene{}, &r); err != nil {
		return err
	}
	if len(r.Scores) != len(scores) {
		return broken("the environment's score_group gave %d scores for %d samples", len(r.Scores), len(scores))
	}
	for i, s := range r.Scores {
		scores[i] = s.Score
	}
	return nil
}

// Oracle asks the program for the perfect player's messages.
func (e withOracle) Oracle(t envs.Task) ([]trajectory.Message, error) { return e.oracle(t) }

// Oracle asks the program for the perfect player's messages.
func (e withBoth) Oracle(t envs.Task) ([]trajectory.Message, error) { return e.oracle(t) }

// Hidden asks the program for the texts that no model may read.
func (e withHidden) Hidden(t envs.Task) []string { return e.secrets(t) }

// Hidden asks the program for the texts that no model may read.
func (e withBoth) Hidden(t envs.Task) []string { return e.secrets(t) }

func (e *Env) oracle(t envs.Task) ([]trajectory.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.c.Timeout+time.Minute)
	defer cancel()
	var r struct {
		Messages []message `json:"messages"`
	}
	if err := e.ask(ctx, "oracle", map[string]any{"task": knownOf(t).param}, &scene{}, &r); err != nil {
		return nil, err
	}
	list, err := received(r.Messages)
	if err != nil {
		return nil, broken("the environment's oracle: %w", err)
	}
	return list, nil
}

// secrets panics where the program fails: a suite that looks for nothing would pass.
func (e *Env) secrets(t envs.Task) []string {
	ctx, cancel := context.WithTimeout(context.Background(), e.c.Timeout+time.Minute)
	defer cancel()
	var r struct {
		Texts []string `json:"texts"`
	}
	if err := e.ask(ctx, "hidden", map[string]any{"task": knownOf(t).param}, &scene{}, &r); err != nil {
		panic(err)
	}
	return r.Texts
}

// Respond asks the program what the user says.
func (e *Env) Respond(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	if !e.hello.can("respond") {
		return nil, nil
	}
	st := e.stateOf(w)
	st.mu.Lock()
	defer st.mu.Unlock()
	var r struct {
		stated
		Messages []message `json:"messages"`
		Prompt   string    `json:"prompt"`
	}
	if err := e.ask(ctx, "respond", e.params(t, w, st, episode(ep)), &scene{world: w}, &r); err != nil {
		return nil, err
	}
	st.keep(r.stated)
	list, err := received(r.Messages)
	if err != nil {
		return nil, broken("the environment's respond: %w", err)
	}
	if r.Prompt != "" {
		list = append(list, trajectory.Text(trajectory.User, r.Prompt))
	}
	return list, nil
}

// Prepare lets the program fill the box.
func (e *Env) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	if !e.hello.can("prepare") {
		return nil
	}
	st := e.stateOf(w)
	st.mu.Lock()
	defer st.mu.Unlock()
	var r stated
	if err := e.ask(ctx, "prepare", e.params(t, w, st, episodeParam{}), &scene{world: w}, &r); err != nil {
		return err
	}
	st.keep(r)
	return nil
}

// answerOf is the text of the last assistant message.
func answerOf(list []trajectory.Message) string {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role == trajectory.Assistant {
			return strings.TrimSpace(list[i].Content())
		}
	}
	return ""
}

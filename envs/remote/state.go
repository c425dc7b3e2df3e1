package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

type stateKey struct{}

// state is what the program keeps of one rollout. It is lent to one request at a time.
type state struct {
	mu    sync.Mutex
	id    string
	value json.RawMessage
}

// stated is the part of a result that changes the state; absent: it stays.
type stated struct {
	State json.RawMessage `json:"state"`
}

func (e *Env) stateOf(w envs.World) *state {
	return w.State.Get(stateKey{}, func() any { return &state{id: fmt.Sprintf("e%d", e.episodes.Add(1))} }).(*state)
}

func (s *state) keep(r stated) {
	if r.State != nil {
		s.value = r.State
	}
}

// params are those of a method of a rollout. The caller holds the state's mutex.
func (e *Env) params(t envs.Task, w envs.World, st *state, ep episodeParam) map[string]any {
	ep.ID, ep.State = st.id, st.value
	p := map[string]any{"task": knownOf(t).param, "episode": ep}
	if w.Rand != nil {
		p["seed"] = w.Rand.Int64N(1 << 53) // JSON numbers are exact up to there
	}
	return p
}

// episodeParam is an episode for the program.
type episodeParam struct {
	ID       string           `json:"id"`
	Answer   string           `json:"answer"` // the last text of the model
	Messages []message        `json:"messages,omitempty"`
	Stop     *trajectory.Stop `json:"stop,omitempty"`
	Turns    int              `json:"turns"`
	Errors   []toolError      `json:"errors,omitempty"`
	State    json.RawMessage  `json:"state,omitempty"`
}

type toolError struct {
	Turn int    `json:"turn"`
	Name string `json:"name"`
	Text string `json:"text"`
}

func episode(ep envs.Episode) episodeParam {
	list := slices.Collect(ep.Trace.Prefix().Messages())
	p := episodeParam{Answer: answerOf(list), Messages: sent(list), Stop: &ep.Stop, Turns: ep.Trace.Turns()}
	for _, x := range ep.Errors {
		p.Errors = append(p.Errors, toolError{x.Turn, x.Name, x.Text})
	}
	return p
}

// toolResult is one tool of the program.
type toolResult struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	ReadOnly    bool            `json:"read_only"`
	FromCode    bool            `json:"from_code"`
}

// Tools are the program's. Calls of one rollout come one after the other.
func (e *Env) Tools(ctx context.Context, t envs.Task, w envs.World) ([]tool.Def, error) {
	if !e.hello.can("tools") {
		return nil, nil
	}
	st := e.stateOf(w)
	st.mu.Lock()
	defer st.mu.Unlock()
	var r struct {
		stated
		Tools []toolResult `json:"tools"`
	}
	if err := e.ask(ctx, "tools", e.params(t, w, st, episodeParam{}), &scene{world: w}, &r); err != nil {
		return nil, err
	}
	st.keep(r.stated)
	var defs []tool.Def
	for _, x := range r.Tools {
		if x.Name == "" {
			return nil, broken("the environment's tools: a tool without a name")
		}
		if len(x.Parameters) == 0 {
			x.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		defs = append(defs, tool.Def{Spec: trajectory.ToolSpec{Name: x.Name, Description: x.Description, Parameters: x.Parameters}, Toolset: e.hello.Name,
			Traits: tool.Traits{ReadOnly: x.ReadOnly, FromCode: x.FromCode}, Open: e.opener(t, w, st, x.Name)})
	}
	return defs, nil
}

func (e *Env) opener(t envs.Task, w envs.World, st *state, name string) func(*tool.Scope) (tool.Handler, error) {
	return func(scope *tool.Scope) (tool.Handler, error) {
		return func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			if !isNested(ctx) { // else the request that waits for this one holds it
				st.mu.Lock()
				defer st.mu.Unlock()
			}
			p := e.params(t, w, st, episodeParam{})
			p["name"], p["arguments"] = name, args
			here := w
			here.Tools, here.Judge = nil, nil // a tool is no scorer; it may use the box
			var r struct {
				stated
				Text   *string         `json:"text"`
				Result json.RawMessage `json:"result"` // any value: shown as JSON
				Failed bool            `json:"failed"`
			}
			if err := e.ask(ctx, "call", p, &scene{world: here, box: scope.Box}, &r); err != nil {
				return tool.Result{}, err
			}
			st.keep(r.stated)
			out := tool.Result{Failed: r.Failed, Text: string(r.Result)}
			if r.Text != nil {
				out.Text = *r.Text
			}
			return out, nil
		}, nil
	}
}

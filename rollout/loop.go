package rollout

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"hermes/backends"
	"hermes/envs"
	"hermes/rollout/event"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// HermesAgentLoop asks a model, runs the tools that it calls, and asks again.
type HermesAgentLoop struct {
	Sampler  policy.Sampler
	Tools    tools // nil: none
	Limits   Limits
	Faults   FaultRule // empty: Show
	RunCalls RunCalls  // empty: DefaultRunCalls
	Hooks    Hooks
	Observer event.Observer // nil: none
	Quiet    bool           // no deltas are needed: the policy streams only when its options say so
	Key      trajectory.Key // for events

	// What Run leaves behind.
	Left       []trajectory.Message // messages that no model has answered
	ToolErrors []envs.ToolError
	ModelTime  time.Duration
	ToolTime   time.Duration

	written int64 // tokens by the model
	guard   guard
}

// guard notices turns that lead nowhere.
type guard struct {
	unreadable, same, resampled int
	last                        uint64
	seed                        maphash.Seed
}

// Run asks until the model answers without calls, or a limit, an interrupt or a fault
// rule ends it. An error is a failure of model server or box, never the model's doing;
// what was committed before stays in t.
func (l *HermesAgentLoop) Run(ctx context.Context, t *trajectory.Trace, pending []trajectory.Message) (trajectory.Stop, error) {
	l.prepare()
	for turn := 1; ; turn++ {
		if l.Hooks.Steer != nil {
			pending = append(pending, l.Hooks.Steer()...)
		}
		l.Left = pending
		if stop, over := l.over(turn); over {
			return stop, nil
		}
		answer, err := l.ask(ctx, t, pending, turn)
		if err != nil {
			return l.failed(ctx, err)
		}
		pending, l.Left = nil, nil
		stop, again := l.judge(t, answer)
		if again {
			pending = messagesOf(answer.Given)
			continue
		}
		var unreadable int
		switch {
		case stop.Reason == trajectory.StopAnswer && l.Hooks.Respond != nil:
			pending, err = l.Hooks.Respond(ctx, t, stop)
			if err != nil {
				return l.broken(ctx, err)
			}
			if len(pending) == 0 {
				return stop, nil
			}
		case stop.Reason != "":
			return stop, nil
		default:
			pending, unreadable, err = l.run(ctx, turn, answer.Sampled.Message.Calls)
			if err != nil {
				return l.broken(ctx, err)
			}
			if l.Hooks.Stepped != nil {
				l.Left = pending
				if err := l.Hooks.Stepped(ctx, t); err != nil {
					return l.broken(ctx, err)
				}
			}
		}
		l.Left = pending
		if stop := l.guard.after(answer.Sampled.Message, pending, unreadable); stop.Reason != "" {
			return stop, nil
		}
	}
}

func (l *HermesAgentLoop) prepare() {
	if l.Observer == nil {
		l.Observer = event.Discard
	}
	l.guard = guard{seed: maphash.MakeSeed()}
}

// over tells whether a limit forbids turn number turn.
func (l *HermesAgentLoop) over(turn int) (trajectory.Stop, bool) {
	switch {
	case l.Limits.Turns > 0 && turn > l.Limits.Turns:
		return trajectory.Stop{Reason: trajectory.StopTurns, Detail: fmt.Sprintf("%d turns", l.Limits.Turns)}, true
	case l.Limits.Tokens > 0 && l.written >= l.Limits.Tokens:
		return trajectory.Stop{Reason: trajectory.StopTokens, Detail: fmt.Sprintf("%d of %d tokens", l.written, l.Limits.Tokens)}, true
	case l.Limits.Time > 0 && l.ModelTime+l.ToolTime >= l.Limits.Time:
		return trajectory.Stop{Reason: trajectory.StopTime, Detail: l.Limits.Time.String()}, true
	}
	return trajectory.Stop{}, false
}

// ask gets one answer and commits it.
func (l *HermesAgentLoop) ask(ctx context.Context, t *trajectory.Trace, pending []trajectory.Message, turn int) (trajectory.Turn, error) {
	var answer trajectory.Turn
	err := l.next(ctx, t, pending, &answer)
	if overlong(err) && l.Hooks.Compact != nil {
		fresh, cerr := l.Hooks.Compact(ctx, t.Prefix(), pending)
		if cerr != nil {
			return answer, cerr
		}
		if err := t.Rewind(trajectory.None, trajectory.Branch); err != nil {
			return answer, err
		}
		err = l.next(ctx, t, fresh, &answer)
	}
	if err != nil {
		return answer, err
	}
	id, err := t.Commit(answer)
	if err != nil {
		return answer, err
	}
	l.written += answer.Usage.Completion
	if l.Hooks.Committed != nil {
		l.Hooks.Committed(id, answer)
	}
	l.Observer.Observe(event.TurnEnded{Key: l.Key, Turn: turn, Message: answer.Sampled.Message, Faults: answer.Faults, Usage: answer.Usage, Took: answer.Took, Replay: answer.Replayed})
	return answer, nil
}

// next puts the model's answer into answer.
func (l *HermesAgentLoop) next(ctx context.Context, t *trajectory.Trace, pending []trajectory.Message, answer *trajectory.Turn) (err error) {
	var on func(policy.Chunk)
	if !l.Quiet {
		on = func(c policy.Chunk) {
			l.Observer.Observe(event.Delta{Key: l.Key, Content: c.Content, Reasoning: c.Reasoning, Restart: c.Restart})
		}
	}
	*answer, err = l.Sampler.Next(ctx, t.Prefix(), pending, on)
	l.ModelTime += answer.Took
	return err
}

func overlong(err error) bool {
	var pe *policy.Error
	return errors.As(err, &pe) && pe.Kind == policy.Overlong
}

// failed sorts an error of a question to the model: a full context ends the rollout.
func (l *HermesAgentLoop) failed(ctx context.Context, err error) (trajectory.Stop, error) {
	if ctx.Err() == nil && overlong(err) {
		return trajectory.Stop{Reason: trajectory.StopContext, Detail: err.Error()}, nil
	}
	return l.broken(ctx, err)
}

// broken sorts any other error: an interrupt and a box that the model broke end the
// rollout, everything else voids it.
func (l *HermesAgentLoop) broken(ctx context.Context, err error) (trajectory.Stop, error) {
	switch {
	case ctx.Err() != nil:
		return trajectory.Stop{Reason: trajectory.StopInterrupted, Detail: context.Cause(ctx).Error()}, nil
	case errors.Is(err, backends.ErrBroken):
		return trajectory.Stop{Reason: trajectory.StopFaultyBox, Detail: err.Error()}, nil
	}
	return trajectory.Stop{}, err
}

// judge looks at a committed answer. again asks for another one; an empty stop reason
// goes on with the answer's calls.
func (l *HermesAgentLoop) judge(t *trajectory.Trace, a trajectory.Turn) (stop trajectory.Stop, again bool) {
	fault := l.faultOf(a)
	if fault == "" || l.Faults != Resample {
		l.guard.resampled = 0
		return l.shown(a, fault), false
	}
	if l.guard.resampled >= Resamples {
		if a.Finish == trajectory.FinishLength {
			return trajectory.Stop{Reason: trajectory.StopLength, Detail: fault}, false
		}
		return trajectory.Stop{Reason: trajectory.StopMalformed, Detail: fault}, false
	}
	l.guard.resampled++
	to := t.Head
	for range len(a.Given) + 1 {
		to = t.Nodes[to].Parent
	}
	if err := t.Rewind(to, trajectory.Abandoned); err != nil {
		panic(err) // the nodes were committed a moment ago
	}
	return trajectory.Stop{}, true
}

// shown ends the loop where an answer has no calls to run.
func (l *HermesAgentLoop) shown(a trajectory.Turn, fault string) trajectory.Stop {
	m := a.Sampled.Message
	switch {
	case a.Finish == trajectory.FinishAborted:
		return trajectory.Stop{Reason: trajectory.StopInterrupted, Detail: "the answer was cut off"}
	case a.Finish == trajectory.FinishFilter:
		return trajectory.Stop{Reason: trajectory.StopRefused, Detail: "content filter"}
	case a.Finish == trajectory.FinishLength:
		if repeats(m.Content()) || repeats(m.Reasoning) {
			return trajectory.Stop{Reason: trajectory.StopRepetition, Detail: "the answer repeats itself"}
		}
		return trajectory.Stop{Reason: trajectory.StopLength, Detail: "the answer was cut by its token limit"}
	case len(m.Calls) == 0:
		if _, bad := unread(a.Faults); bad {
			return trajectory.Stop{Reason: trajectory.StopMalformed, Detail: fault}
		}
		return trajectory.Stop{Reason: trajectory.StopAnswer, Detail: fault}
	}
	return trajectory.Stop{}
}

// faultOf names what is wrong with an answer, or "": by what its reader said of it.
func (l *HermesAgentLoop) faultOf(a trajectory.Turn) string {
	m := a.Sampled.Message
	switch {
	case a.Finish == trajectory.FinishAborted || a.Finish == trajectory.FinishFilter:
		return ""
	case a.Finish == trajectory.FinishLength:
		return "the answer was cut by its token limit"
	case len(m.Calls) > 0:
		for _, c := range m.Calls {
			if !l.RunCalls.runs(c) {
				return fmt.Sprintf("the call of %s is %s", c.Name, c.State)
			}
		}
		return ""
	}
	if f, bad := unread(a.Faults); bad {
		return fmt.Sprintf("text that looks like a call (%s): %s", f.Kind, f.Message)
	}
	switch blank := strings.TrimSpace(m.Content()) == ""; {
	case blank && m.Reasoning != "":
		return "thinking without an answer"
	case blank && !hasMedia(m):
		return "empty answer"
	}
	return ""
}

func hasMedia(m trajectory.Message) bool {
	for _, p := range m.Parts {
		if p.Kind != trajectory.PartText {
			return true
		}
	}
	return false
}

// repeats reports whether text ends in at least 20 copies of a piece of 2 to 200 bytes
// (or 100 copies of one byte).
func repeats(text string) bool {
	tail := text[max(0, len(text)-8000):]
	for period := 1; period <= 200; period++ {
		want := 20
		if period == 1 {
			want = 100
		}
		if len(tail) < period*want {
			return false
		}
		end := tail[len(tail)-period*want:]
		if end[period:] == end[:len(end)-period] {
			return true
		}
	}
	return false
}

// run answers the calls of one turn; each gets exactly one message. unreadable counts the
// calls that no tool could make sense of.
func (l *HermesAgentLoop) run(ctx context.Context, turn int, calls []trajectory.Call) (answers []trajectory.Message, unreadable int, err error) {
	results := make([]tool.Result, len(calls))
	var allowed []trajectory.Call
	var places []int
	for i, c := range calls {
		if !l.RunCalls.runs(c) {
			results[i] = unrun(c)
			continue
		}
		if l.Tools == nil {
			results[i] = tool.Errorf("Unknown tool: %s", c.Name)
			results[i].Fault = tool.FaultUnknown
			continue
		}
		allowed, places = append(allowed, c), append(places, i)
	}
	if len(allowed) > 0 {
		for _, c := range allowed {
			l.Observer.Observe(event.CallStarted{Key: l.Key, Call: c})
		}
		start := time.Now()
		got, err := l.Tools.CallAll(ctx, allowed)
		l.ToolTime += time.Since(start)
		if err != nil {
			return nil, 0, err
		}
		for i, r := range got {
			results[places[i]] = r
		}
	}
	messages := make([]trajectory.Message, len(calls))
	for i, r := range results {
		m := trajectory.Text(trajectory.Tool, r.Text)
		m.Parts = append(m.Parts, r.Parts...)
		m.CallID, m.Name, m.Failed = calls[i].ID, calls[i].Name, r.Failed
		messages[i] = m
		switch r.Fault {
		case tool.FaultUnknown, tool.FaultJSON, tool.FaultArguments:
			unreadable++
		}
		if r.Failed {
			l.ToolErrors = append(l.ToolErrors, envs.ToolError{Turn: turn, Name: calls[i].Name, Text: r.Text})
		}
	}
	return messages, unreadable, nil
}

// after counts turns that lead nowhere and ends the loop when there are too many. results
// answer the calls of m, or m itself where it has none.
func (g *guard) after(m trajectory.Message, results []trajectory.Message, unreadable int) trajectory.Stop {
	g.unreadable++
	if unreadable == 0 || unreadable < len(m.Calls) {
		g.unreadable = 0
	}
	if sum := g.sum(m, results); sum != g.last {
		g.same, g.last = 0, sum
	}
	g.same++
	switch {
	case g.unreadable >= unreadableTurns:
		return trajectory.Stop{Reason: trajectory.StopMalformed, Detail: fmt.Sprintf("%d turns in a row hold no call that can be read", g.unreadable)}
	case g.same >= sameTurns:
		return trajectory.Stop{Reason: trajectory.StopRepetition, Detail: fmt.Sprintf("%d identical turns in a row", g.same)}
	}
	return trajectory.Stop{}
}

// sum tells a turn and its results from others, without keeping their text.
func (g *guard) sum(m trajectory.Message, results []trajectory.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	field := func(s string) {
		h.WriteString(s)
		h.WriteByte(0)
	}
	for _, c := range m.Calls {
		field(c.Name)
		field(c.Arguments)
	}
	if len(m.Calls) == 0 {
		field(m.Content())
	}
	for _, r := range results {
		field(r.Content())
	}
	return h.Sum64()
}

func messagesOf(ds []trajectory.Delta) []trajectory.Message {
	out := make([]trajectory.Message, len(ds))
	for i, d := range ds {
		out[i] = d.Message
	}
	return out
}

package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// script is a sampler that plays turns and remembers what it was asked.
type script struct {
	turns []trajectory.Turn
	errs  []error
	asked [][]trajectory.Message // all that the model saw, per question
}

func (s *script) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	var seen []trajectory.Message
	for m := range p.Messages() {
		seen = append(seen, m)
	}
	s.asked = append(s.asked, append(seen, pending...))
	n := len(s.asked) - 1
	if n < len(s.errs) && s.errs[n] != nil {
		return trajectory.Turn{}, s.errs[n]
	}
	turn := s.turns[min(n, len(s.turns)-1)]
	for _, m := range pending {
		turn.Given = append(turn.Given, trajectory.Delta{Message: m})
	}
	return turn, nil
}

func (s *script) Close() error { return nil }

func says(text string) trajectory.Turn {
	return trajectory.Turn{Finish: trajectory.FinishStop, Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text)}}
}

func calls(cs ...trajectory.Call) trajectory.Turn {
	t := says("")
	t.Finish, t.Sampled.Message.Calls = trajectory.FinishCalls, cs
	return t
}

func cut(text string) trajectory.Turn {
	t := says(text)
	t.Finish = trajectory.FinishLength
	return t
}

// bench answers every call with its arguments.
type bench struct {
	ran int
	err error
}

func (b *bench) CallAll(_ context.Context, cs []trajectory.Call) ([]tool.Result, error) {
	var out []tool.Result
	for _, c := range cs {
		b.ran++
		switch {
		case b.err != nil:
			return nil, b.err
		case c.Name != "echo" || !strings.HasPrefix(c.Arguments, "{"):
			r := tool.Errorf("cannot read %s", c.Name)
			r.Fault = tool.FaultUnknown
			out = append(out, r)
		default:
			out = append(out, tool.Result{Text: fmt.Sprintf("%d %s", b.ran, c.Arguments)})
		}
	}
	return out, nil
}

func echo(id string) trajectory.Call {
	return trajectory.Call{ID: id, Name: "echo", Arguments: `{"id":"` + id + `"}`}
}

func faulty(kind string) trajectory.Turn {
	turn := says("text of a fault")
	turn.Faults = []trajectory.Fault{{Kind: kind, Message: "what it is", From: 0, To: 4}}
	return turn
}

// TestRunCalls: a call runs if its state is one of those that may run; any other is answered
// once, with the reason, beside calls that do run.
func TestRunCalls(t *testing.T) {
	all := []trajectory.CallState{
		trajectory.CallComplete,
		trajectory.CallRecovered,
		trajectory.CallAmbiguous,
		trajectory.CallTruncated,
		trajectory.CallMalformed,
	}
	for _, tt := range []struct {
		list string
		ran  []trajectory.CallState
	}{
		{"", all[:2]},
		{"complete", all[:1]},
		{"ambiguous, complete,recovered", all[:3]},
	} {
		var rule rollout.RunCalls
		if tt.list != "" {
			var err error
			rule, err = rollout.ParseRunCalls(tt.list)
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, state := range all {
			c := echo("b")
			c.State = state
			s := &script{turns: []trajectory.Turn{calls(echo("a"), c), says("done")}}
			b := &bench{}
			tr := trajectory.New(trajectory.ModeText, nil)
			l := &rollout.HermesAgentLoop{Sampler: s, Tools: b, RunCalls: rule}
			if stop, err := l.Run(t.Context(), tr, []trajectory.Message{trajectory.Text(trajectory.User, "task")}); err != nil ||
				stop.Reason != trajectory.StopAnswer {
				t.Fatalf("%q, %s: stop %+v, error %v", tt.list, state, stop, err)
			}
			everyCallAnswered(t, tr)
			want := 1
			if slices.Contains(tt.ran, state) {
				want = 2
			}
			answer := s.asked[1][len(s.asked[1])-1]
			if b.ran != want || (want == 1) != (answer.Failed && strings.Contains(answer.Content(), "was not run")) {
				t.Errorf("%q: with a call that is %s %d ran, and it was answered %q", tt.list, state, b.ran, answer.Content())
			}
		}
	}
	for _, list := range []string{"truncated", "complete,malformed", "recovered", "all", "complete,"} {
		if r, err := rollout.ParseRunCalls(list); err == nil {
			t.Errorf("%q is read as %q", list, r)
		}
	}
}

func TestLoop(t *testing.T) {
	bad := calls(trajectory.Call{ID: "x", Name: "echo", Arguments: "not json", State: trajectory.CallMalformed})
	unknown := calls(trajectory.Call{ID: "x", Name: "ecko", Arguments: "{}"})
	limited := &policy.Error{Kind: policy.Limited, Err: errors.New("429")}
	tests := []struct {
		name   string
		turns  []trajectory.Turn
		errs   []error
		tools  bench
		limits rollout.Limits
		faults rollout.FaultRule
		stop   trajectory.StopReason
		err    error
		asked  int // questions to the model
		ran    int // calls that ran
	}{
		{name: "an answer", turns: []trajectory.Turn{says("hi")}, stop: trajectory.StopAnswer, asked: 1},
		{
			name:  "calls, then an answer",
			turns: []trajectory.Turn{calls(echo("a"), echo("b")), calls(echo("c")), says("done")},
			stop:  trajectory.StopAnswer,
			asked: 3,
			ran:   3,
		},
		{
			name:   "an answer on the last turn counts",
			turns:  []trajectory.Turn{calls(echo("a")), says("done")},
			limits: rollout.Limits{Turns: 2},
			stop:   trajectory.StopAnswer,
			asked:  2,
			ran:    1,
		},
		{
			name:   "turn limit: the calls of the last turn still run",
			turns:  []trajectory.Turn{calls(echo("a")), calls(echo("b")), says("never")},
			limits: rollout.Limits{Turns: 2},
			stop:   trajectory.StopTurns,
			asked:  2,
			ran:    2,
		},
		{name: "an unknown tool is answered", turns: []trajectory.Turn{unknown, says("sorry")}, stop: trajectory.StopAnswer, asked: 2, ran: 1},
		{name: "unreadable three times", turns: []trajectory.Turn{bad}, stop: trajectory.StopMalformed, asked: 3},
		{
			name:   "unreadable calls are resampled",
			turns:  []trajectory.Turn{bad, calls(echo("a")), says("done")},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  3,
			ran:    1,
		},
		{name: "resampling ends", turns: []trajectory.Turn{bad}, faults: rollout.Resample, stop: trajectory.StopMalformed, asked: 3},
		{name: "the same turn again and again", turns: []trajectory.Turn{unknown}, stop: trajectory.StopMalformed, asked: 3, ran: 3},
		{name: "an empty answer is shown", turns: []trajectory.Turn{says("")}, stop: trajectory.StopAnswer, asked: 1},
		{name: "an empty answer is resampled", turns: []trajectory.Turn{says(""), says("ok")}, faults: rollout.Resample, stop: trajectory.StopAnswer, asked: 2},
		{
			name:   "text that looks like a call is resampled",
			turns:  []trajectory.Turn{faulty("unread"), says("ok")},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  2,
		},
		{
			name:   "and is malformed in the end",
			turns:  []trajectory.Turn{faulty("truncated")},
			faults: rollout.Resample,
			stop:   trajectory.StopMalformed,
			asked:  3,
		},
		{name: "shown, it is malformed at once", turns: []trajectory.Turn{faulty("malformed")}, stop: trajectory.StopMalformed, asked: 1},
		{
			name:   "a fault beside the text is none",
			turns:  []trajectory.Turn{faulty("stray_text")},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  1,
		},
		{
			name:   "a tag without a fault is prose",
			turns:  []trajectory.Turn{says("write <tool_call> and <function=x>")},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  1,
		},
		{name: "cut off", turns: []trajectory.Turn{cut("half an ans")}, stop: trajectory.StopLength, asked: 1},
		{
			name: "a cut call is asked for again",
			turns: []trajectory.Turn{
				calls(trajectory.Call{ID: "x", Name: "echo", Arguments: "{}", State: trajectory.CallTruncated}),
				calls(echo("a")),
				says("done"),
			},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  3,
			ran:    1,
		},
		{
			name:   "a recovered call is run",
			turns:  []trajectory.Turn{calls(trajectory.Call{ID: "x", Name: "echo", Arguments: "{}", State: trajectory.CallRecovered}), says("done")},
			faults: rollout.Resample,
			stop:   trajectory.StopAnswer,
			asked:  2,
			ran:    1,
		},
		{
			name:  "cut off in a call: nothing runs",
			turns: []trajectory.Turn{func() trajectory.Turn { c := calls(echo("a")); c.Finish = trajectory.FinishLength; return c }()},
			stop:  trajectory.StopLength,
			asked: 1,
		},
		{name: "endless repetition", turns: []trajectory.Turn{cut(strings.Repeat("and again ", 90))}, stop: trajectory.StopRepetition, asked: 1},
		{name: "the model server fails", turns: []trajectory.Turn{says("x")}, errs: []error{limited}, err: limited, asked: 1},
		{
			name:  "context full",
			turns: []trajectory.Turn{says("x")},
			errs:  []error{&policy.Error{Kind: policy.Overlong, Err: errors.New("8193 > 8192")}},
			stop:  trajectory.StopContext,
			asked: 1,
		},
		{name: "box lost", turns: []trajectory.Turn{calls(echo("a"))}, tools: bench{err: backends.ErrLost}, err: backends.ErrLost, asked: 1, ran: 1},
		{
			name:  "box broken by the model",
			turns: []trajectory.Turn{calls(echo("a"))},
			tools: bench{err: backends.ErrBroken},
			stop:  trajectory.StopFaultyBox,
			asked: 1,
			ran:   1,
		},
		{
			name:   "token limit",
			turns:  []trajectory.Turn{func() trajectory.Turn { c := calls(echo("a")); c.Usage.Completion = 60; return c }()},
			limits: rollout.Limits{Tokens: 100},
			stop:   trajectory.StopTokens,
			asked:  2,
			ran:    2,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{turns: tt.turns, errs: tt.errs}
			tr := trajectory.New(trajectory.ModeText, nil)
			l := &rollout.HermesAgentLoop{Sampler: s, Tools: &tt.tools, Limits: tt.limits, Faults: tt.faults}
			stop, err := l.Run(t.Context(), tr, []trajectory.Message{trajectory.Text(trajectory.User, "task")})
			if !errors.Is(err, tt.err) || stop.Reason != tt.stop {
				t.Fatalf("stop %+v, error %v; want %q, %v", stop, err, tt.stop, tt.err)
			}
			if len(s.asked) != tt.asked || tt.tools.ran != tt.ran {
				t.Errorf("asked %d times, %d calls ran; want %d, %d", len(s.asked), tt.tools.ran, tt.asked, tt.ran)
			}
			tr.Finish(l.Left)
			everyCallAnswered(t, tr)
		})
	}
}

// everyCallAnswered checks the rule that providers insist on: one result for each call,
// in order, right after the calls (in the pending messages for the last turn).
func everyCallAnswered(t *testing.T, tr *trajectory.Trace) {
	t.Helper()
	var all []trajectory.Message
	for m := range tr.Prefix().Messages() {
		all = append(all, m)
	}
	all = append(all, tr.Pending...)
	for i, m := range all {
		if i+len(m.Calls) >= len(all) {
			continue // the last turn: its calls were cut off or its box broke
		}
		for j, c := range m.Calls {
			if got := all[i+1+j]; got.Role != trajectory.Tool || got.CallID != c.ID {
				t.Errorf("message %d: call %s is followed by %s %s", i, c.ID, got.Role, got.CallID)
			}
		}
	}
}

func TestInterruptKeepsWhatWasCommitted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &script{turns: []trajectory.Turn{calls(echo("a"))}, errs: []error{nil, context.Canceled}}
	tr := trajectory.New(trajectory.ModeText, nil)
	l := &rollout.HermesAgentLoop{Sampler: s, Tools: &bench{}}
	l.Hooks.Committed = func(trajectory.NodeID, trajectory.Turn) { cancel(errors.New("enough")) }
	stop, err := l.Run(ctx, tr, []trajectory.Message{trajectory.Text(trajectory.User, "task")})
	if err != nil || stop.Reason != trajectory.StopInterrupted || stop.Detail != "enough" {
		t.Fatalf("stop %+v, error %v", stop, err)
	}
	if len(tr.Nodes) != 2 || len(l.Left) != 1 {
		t.Errorf("%d nodes and %d messages left, want 2 and 1", len(tr.Nodes), len(l.Left))
	}
}

func TestHooks(t *testing.T) {
	s := &script{turns: []trajectory.Turn{calls(echo("a"), echo("b")), says("done")}}
	tr := trajectory.New(trajectory.ModeText, nil)
	b := &bench{}
	steered := false
	l := &rollout.HermesAgentLoop{Sampler: s, Tools: b, Hooks: rollout.Hooks{
		Steer: func() []trajectory.Message {
			if len(tr.Nodes) == 0 || steered {
				return nil
			}
			steered = true
			return []trajectory.Message{trajectory.Text(trajectory.User, "hurry")}
		},
	}}
	if stop, err := l.Run(t.Context(), tr, []trajectory.Message{trajectory.Text(trajectory.User, "task")}); err != nil || stop.Reason != trajectory.StopAnswer {
		t.Fatalf("stop %+v, error %v", stop, err)
	}
	second := s.asked[1]
	if last := second[len(second)-1]; last.Role != trajectory.User || last.Content() != "hurry" {
		t.Errorf("the last message is %s %q", last.Role, last.Content())
	}
}

func TestCompactForks(t *testing.T) {
	full := &policy.Error{Kind: policy.Overlong, Err: errors.New("full")}
	s := &script{turns: []trajectory.Turn{calls(echo("a")), calls(echo("b")), says("done")}, errs: []error{nil, full}}
	tr := trajectory.New(trajectory.ModeText, nil)
	l := &rollout.HermesAgentLoop{Sampler: s, Tools: &bench{}, Hooks: rollout.Hooks{
		Compact: func(context.Context, trajectory.Prefix, []trajectory.Message) ([]trajectory.Message, error) {
			return []trajectory.Message{trajectory.Text(trajectory.User, "summary")}, nil
		}}}
	if stop, err := l.Run(t.Context(), tr, []trajectory.Message{trajectory.Text(trajectory.User, "task")}); err != nil || stop.Reason != trajectory.StopAnswer {
		t.Fatalf("stop %+v, error %v", stop, err)
	}
	leaves := 0
	for range tr.Sequences() {
		leaves++
	}
	if leaves != 2 || len(s.asked[2]) != 1 {
		t.Errorf("%d sequences, %d messages after compaction; want 2, 1", leaves, len(s.asked[2]))
	}
}

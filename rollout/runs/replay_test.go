package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// echo is a sampler whose requests are distinguished by everything that they say; it asks
// only its tape.
type echo struct {
	tape  policy.Tape
	salt  string // makes requests differ from the turn `from` on
	from  int
	turn  int
	asked []string
}

func (e *echo) digest(p trajectory.Prefix, pending []trajectory.Message) (d [32]byte) {
	var b strings.Builder
	for m := range p.Messages() {
		b.WriteString(m.Content() + "|")
	}
	for _, m := range pending {
		b.WriteString(m.Content() + "|")
	}
	if e.turn >= e.from {
		b.WriteString(e.salt)
	}
	e.asked = append(e.asked, b.String())
	copy(d[:], fmt.Sprint(e.turn, b.String()))
	return d
}

func (e *echo) Next(_ context.Context, p trajectory.Prefix, pending []trajectory.Message, _ func(policy.Chunk)) (trajectory.Turn, error) {
	answer, ok := e.tape.Lookup(e.digest(p, pending))
	if !ok {
		return trajectory.Turn{}, errors.New("not stored")
	}
	e.turn++
	return turnOf(string(answer), pending...), nil
}

func (e *echo) Close() error { return nil }

func turnOf(answer string, pending ...trajectory.Message) trajectory.Turn {
	t := trajectory.Turn{Finish: trajectory.FinishStop, Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, answer)}}
	for _, m := range pending {
		t.Given = append(t.Given, trajectory.Delta{Message: m})
	}
	return t
}

// talk makes a run of one sample: two turns, the second one abandoned and asked again.
func talk(t *testing.T, dir string, stored int) {
	t.Helper()
	d, err := rundir.Open(t.Context(), dir, rundir.Manifest{
		Version: "1",
		Extent:  rundir.Extent{Planned: 1},
		Books:   rundir.Books{Mode: "batch"},
	}, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := trajectory.NewKey("r", 0, 0, 0)
	tape, err := d.Journal.Tape(k, 1)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{}
	tr := trajectory.New(trajectory.ModeText, nil)
	for i, given := range []string{"task", "go on", "go on"} {
		m := trajectory.Text(trajectory.User, given)
		if i < stored {
			if err := tape.Store(e.digest(tr.Prefix(), []trajectory.Message{m}), fmt.Append(nil, "answer ", i)); err != nil {
				t.Fatal(err)
			}
		}
		e.turn++
		before := tr.Head
		if _, err := tr.Commit(turnOf(fmt.Sprint("answer ", i), m)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := tr.Rewind(before, trajectory.Abandoned); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr.Finish(nil)
	if _, err := d.Journal.Append(t.Context(), &trajectory.Record{Key: k, Row: "r", Attempt: 1, Outcome: trajectory.Answered, Trace: tr}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReplay(t *testing.T) {
	tests := []struct {
		name   string
		stored int
		policy echo
		want   runs.Replayed
		first  int
	}{
		{name: "the same", stored: 3, want: runs.Replayed{Samples: 1, Turns: 3}},
		{name: "differs from the first turn on", stored: 3, policy: echo{salt: "!"}, want: runs.Replayed{Samples: 1, Turns: 1, Differ: 1}, first: 1},
		{name: "differs behind an abandoned turn", stored: 3, policy: echo{salt: "!", from: 2}, want: runs.Replayed{Samples: 1, Turns: 3, Differ: 1}, first: 3},
		{name: "answers that are not kept", stored: 1, want: runs.Replayed{Samples: 1, Turns: 1, Missing: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			talk(t, dir, tt.stored)
			r, err := runs.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			s := tt.policy
			got, err := r.Replay(t.Context(), func(_ *trajectory.Record, tape policy.Tape) (policy.Sampler, error) {
				s.tape = tape
				return &s, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			first := got.First
			got.First, tt.want.Run = nil, dir
			if got != tt.want || got.Same() != (tt.want.Differ+tt.want.Missing == 0) {
				t.Errorf("found %+v, want %+v", got, tt.want)
			}
			if tt.first == 0 && first != nil || tt.first > 0 && (first == nil || first.Turn != tt.first || first.Row != "r" || first.Stored == first.Rebuilt) {
				t.Errorf("first difference %v, want turn %d", first, tt.first)
			}
			if n := len(s.asked); tt.policy.salt == "" && tt.stored == 3 && (n != 3 || s.asked[1] != s.asked[2] || s.asked[2] != "task|answer 0|go on|") {
				t.Errorf("asked %q", s.asked)
			}
		})
	}
}

package encode_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"hermes/internal/atropos/encode"
	"hermes/trajectory"
)

func delta(role trajectory.Role, text string, given int, tokens []trajectory.Token, lp ...float32) trajectory.Delta {
	return trajectory.Delta{Message: trajectory.Text(role, text), Tokens: tokens, Given: given, LogProbs: lp}
}

func exact(t *testing.T) *trajectory.Record {
	t.Helper()
	tr := trajectory.New(trajectory.ModeExact, nil)
	for _, turn := range []trajectory.Turn{
		{
			Given:   []trajectory.Delta{delta(trajectory.User, "q", 2, []trajectory.Token{5, 6})},
			Sampled: delta(trajectory.Assistant, "a", 1, []trajectory.Token{7, 8, 9}, -0.5, -1),
			Finish:  trajectory.FinishStop,
		},
		{
			Given:   []trajectory.Delta{delta(trajectory.User, "r", 1, []trajectory.Token{1})},
			Sampled: delta(trajectory.Assistant, "b", 0, []trajectory.Token{2}, 0),
			Finish:  trajectory.FinishStop,
		},
	} {
		if _, err := tr.Commit(turn); err != nil {
			t.Fatal(err)
		}
	}
	tr.Finish(nil)
	return &trajectory.Record{Row: "r", Trace: tr}
}

// What was sampled without a log-prob looks like what was given: trainers skip it.
func TestMaskedTokens(t *testing.T) {
	tr := trajectory.New(trajectory.ModeExact, nil)
	d := delta(trajectory.Assistant, "é", 0, []trajectory.Token{7, 8, 9}, 0, 0, -1)
	d.Masked = []trajectory.Run{{From: 0, To: 1}}
	if _, err := tr.Commit(trajectory.Turn{
		Given:   []trajectory.Delta{delta(trajectory.User, "q", 1, []trajectory.Token{5})},
		Sampled: d,
		Finish:  trajectory.FinishStop,
	}); err != nil {
		t.Fatal(err)
	}
	s := encode.Sample(tr)
	if want := []trajectory.Token{-100, -100, 8, 9}; !reflect.DeepEqual(s.Masks, want) {
		t.Errorf("masks %v, want %v", s.Masks, want)
	}
	if want := []encode.Logprob{1, 1, 0, -1}; !reflect.DeepEqual(s.Logprobs, want) {
		t.Errorf("log-probs %v, want %v", s.Logprobs, want)
	}
}

func TestEncode(t *testing.T) {
	text := &trajectory.Record{Row: "r", Sample: 1, Trace: trajectory.New(trajectory.ModeText, nil)}
	g, left, err := encode.Group([]*trajectory.Record{exact(t), text}, []trajectory.Score{{Reward: 1}, {Reward: -0.25}}, map[string]any{"temperature": 0.7})
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	raw, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"tokens":[[5,6,7,8,9,1,2],[]]`, `"masks":[[-100,-100,-100,8,9,-100,2],[]]`, `"scores":[1,-0.25]`,
		`"inference_logprobs":[[1.0,1.0,1.0,-0.5,-1,1.0,0],[]]`, `"generation_params":{"temperature":0.7}`,
		`"messages":[[{"role":"user","content":"q"},{"role":"assistant","content":"a"}`, `"env_id":null`, `"group_overrides":{"group_size":2}`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("want %s in\n%s", want, raw)
		}
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || len(keys) != 14 {
		t.Errorf("%d keys, want 14 (%v)", len(keys), err)
	}
	if _, _, err := encode.Group([]*trajectory.Record{text}, nil, nil); err == nil {
		t.Error("a sample without a score is encoded")
	}
	if _, _, err := encode.Group([]*trajectory.Record{{}}, []trajectory.Score{{}}, nil); err == nil {
		t.Error("a sample without a trace is encoded")
	}
}

// TestRoom: what a room has given stays as it is while more is given, and its memory serves
// again after that.
func TestRoom(t *testing.T) {
	rec := exact(t)
	want := encode.Sample(rec.Trace)
	var r encode.Room
	for range 3 {
		r.Reset()
		var all []encode.Sequence
		for range 5 {
			all = append(all, r.Sample(rec.Trace))
		}
		_ = append(all[0].Tokens, 1) // does not reach the next one
		for i, got := range all {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("sample %d: %+v, want %+v", i, got, want)
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		r.Reset()
		r.Sample(rec.Trace)
	}); n > testing.AllocsPerRun(10, func() { encode.Sample(rec.Trace) })-3 {
		t.Errorf("%v allocations", n)
	}
}

package grade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
)

// judges are named ones that give a score each, or fail with one of these words.
func judges(says map[string]string) map[string]envs.Judge {
	out := map[string]envs.Judge{}
	for name, text := range says {
		o := &oracle{says: fmt.Sprintf(`{"reason":"%s","score":%s}`, name, text)}
		switch text {
		case "refuses":
			o.says, o.err = "", fmt.Errorf("it refused: %w", envs.ErrJudge)
		case "spent":
			o.says, o.err = "", errors.New("the budget is spent")
		}
		out[name] = o
	}
	return out
}

func spec(t *testing.T, text string) grade.Spec {
	t.Helper()
	s, err := grade.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestPanelOfJudges(t *testing.T) {
	row := datasets.Row{ID: "r", Scoring: datasets.Scoring{Rubric: json.RawMessage(`"Be right."`)}}
	tests := map[string]struct {
		spec  string
		says  map[string]string
		want  float64
		parts map[string]float64
		extra map[string]float64
		err   string
	}{
		"mean": {spec: "{kind: panel, judges: [a, b, c]}", says: map[string]string{"a": "1", "b": "0.5", "c": "0"}, want: 0.5,
			parts: map[string]float64{
				"vote_a": 1,
				"vote_b": 0.5,
				"vote_c": 0,
			}, extra: map[string]float64{"spread": 1, "drop_one": 0.25, "disagreement": 2.0 / 3}},
		"majority": {
			spec:  "{kind: panel, judges: [a, b, c], rule: majority}",
			says:  map[string]string{"a": "1", "b": "0.6", "c": "0"},
			want:  1,
			extra: map[string]float64{"drop_one": 0.5},
		},
		"min": {
			spec:  "{kind: panel, judges: [a, b], rule: min}",
			says:  map[string]string{"a": "0.9", "b": "0.3"},
			want:  0.3,
			extra: map[string]float64{"disagreement": 1},
		},
		"agree": {
			spec:  "{kind: panel, judges: [a, b], rule: min}",
			says:  map[string]string{"a": "0.9", "b": "0.8"},
			want:  0.8,
			extra: map[string]float64{"disagreement": 0},
		},
		"several votes and members": {
			spec: "{kind: panel, judges: [a, b], votes: 2, of: [{kind: rubric}, {kind: rubric, rubric: Be short.}]}",
			says: map[string]string{"a": "1", "b": "0"},
			want: 0.5,
			parts: map[string]float64{
				"vote_a_1_1": 1,
				"vote_a_1_2": 1,
				"vote_b_1_1": 0,
				"vote_b_1_2": 0,
				"vote_a_2_1": 1,
				"vote_a_2_2": 1,
				"vote_b_2_1": 0,
				"vote_b_2_2": 0,
			},
		},
		"a member with its own judge": {
			spec:  "{kind: panel, of: [{kind: rubric, judge: a}, {kind: rubric, judge: b}]}",
			says:  map[string]string{"a": "1", "b": "0.5"},
			want:  0.75,
			parts: map[string]float64{"vote_1": 1, "vote_2": 0.5},
		},
		"one fails": {
			spec: "{kind: panel, judges: [a, b, c]}",
			says: map[string]string{"a": "1", "b": "refuses", "c": "0"},
			err:  "vote b of 3",
		},
		"one abstains": {
			spec:  "{kind: panel, judges: [a, b, c], quorum: 2}",
			says:  map[string]string{"a": "1", "b": "refuses", "c": "0"},
			want:  0.5,
			extra: map[string]float64{"abstained": 1},
		},
		"too many abstain": {
			spec: "{kind: panel, judges: [a, b, c], quorum: 2}",
			says: map[string]string{"a": "refuses", "b": "refuses", "c": "0"},
			err:  "vote b of 3",
		},
		"a spent budget is no vote": {
			spec: "{kind: panel, judges: [a, b, c], quorum: 1}",
			says: map[string]string{"a": "1", "b": "spent", "c": "0"},
			err:  "budget is spent",
		},
		"one is missing": {spec: "{kind: panel, judges: [a, z], quorum: 1}", says: map[string]string{"a": "1"}, err: "--model-role judge_z=MODEL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := spec(t, tt.spec).Bind(row)
			if err != nil {
				t.Fatal(err)
			}
			s, err := g.Grade(context.Background(), envs.World{Judges: judges(tt.says), Rand: rand.New(rand.NewPCG(1, 1))}, episode(t, "task", "answer"))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%+v, %v", s, err)
				}
				return
			}
			if err != nil || math.Abs(s.Reward-tt.want) > 1e-12 || tt.parts != nil && !reflect.DeepEqual(s.Parts, tt.parts) {
				t.Fatalf("%+v, %v", s, err)
			}
			for k, want := range tt.extra {
				if got, ok := s.Metrics[k]; !ok || math.Abs(got-want) > 1e-12 {
					t.Errorf("%s is %g, want %g", k, got, want)
				}
			}
		})
	}
	if got := spec(t, "[{kind: panel, judges: [b, a]}, {kind: rubric}, {kind: pairwise, judge: p}]").Judges(row); !reflect.DeepEqual(got, []string{
		"",
		"a",
		"b",
		"p",
	}) {
		t.Errorf("judges %q", got)
	}
	for bad, why := range map[string]string{
		"{kind: panel, judges: [a]}":                 "one vote is no panel",
		"{kind: panel, judges: [a, a]}":              "is given twice",
		"{kind: panel, judges: [a, b], quorum: 3}":   "quorum 3",
		"{kind: panel, judges: [a, b], rule: most}":  "have mean, majority, min",
		"{kind: panel, judges: [a, b, c], votes: 9}": "at most 25",
	} {
		if _, err := grade.Parse(bad); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

package grade

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// WantCall is a call that a model ought to make. Arguments is a subset: keys that are
// not named may be anything.
type WantCall struct {
	Name      string                     `json:"name"`
	Arguments map[string]json.RawMessage `json:"arguments"`
}

// Calls compares the calls of all turns with those wanted, in any order unless ordered.
// The reward is the share of wanted calls that were made.
func Calls(want []WantCall, ordered bool) Grader {
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		var made []trajectory.Call
		for m := range ep.Trace.Prefix().Messages() {
			made = append(made, m.Calls...)
		}
		hits, from := 0, 0
		used := make([]bool, len(made))
		for _, w := range want {
			for i := from; i < len(made); i++ {
				if !used[i] && matches(w, made[i]) {
					used[i] = true
					hits++
					if ordered {
						from = i + 1
					}
					break
				}
			}
		}
		return trajectory.Score{Reward: float64(hits) / float64(len(want)),
			Metrics: map[string]float64{"calls_wanted": float64(len(want)), "calls_made": float64(len(made))},
			Detail:  fmt.Sprintf("%d of %d wanted calls", hits, len(want))}, nil
	})
}

func matches(w WantCall, c trajectory.Call) bool {
	if w.Name != c.Name {
		return false
	}
	var args map[string]json.RawMessage
	if len(w.Arguments) > 0 && json.Unmarshal([]byte(c.Arguments), &args) != nil {
		return false
	}
	for k, v := range w.Arguments {
		if !sameJSON(v, args[k]) {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	x, y := canonical(a), canonical(b)
	return x != nil && slices.Equal(x, y)
}

// canonical writes JSON with sorted keys and without blanks; nil if it is none.
func canonical(raw json.RawMessage) []byte {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// wantedCalls compares the calls that were made with the expected ones.
type wantedCalls struct {
	Field   string `yaml:"field"`
	Ordered bool   `yaml:"ordered"`
}

func (o *wantedCalls) bind(row datasets.Row) (Grader, error) {
	raw, _, err := field(row, cmp.Or(o.Field, "expected_tools"))
	if err != nil {
		return nil, err
	}
	want, err := wanted(raw)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", row.ID, err)
	}
	return Calls(want, o.Ordered), nil
}

// wanted reads names, or a list of {name, arguments}.
func wanted(raw json.RawMessage) ([]WantCall, error) {
	var want []WantCall
	if err := json.Unmarshal(raw, &want); err == nil && len(want) > 0 && want[0].Name != "" {
		return want, nil
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil || len(names) == 0 {
		return nil, fmt.Errorf("expected_tools %s: want names or a list of {name, arguments}", clip(raw))
	}
	want = nil
	for _, n := range names {
		want = append(want, WantCall{Name: n})
	}
	return want, nil
}

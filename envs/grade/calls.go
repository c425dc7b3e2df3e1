package grade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// WantCall is a call that a model ought to make. Arguments is a subset: keys that are
// not named may be anything.
type WantCall struct {
	Name      string                     `json:"name"`
	Arguments map[string]json.RawMessage `json:"arguments"`
	Compare   []string                   `json:"compare_args"` // only these arguments count; nil: all
}

// made are the calls of all turns.
func made(ep envs.Episode) (out []trajectory.Call) {
	for m := range ep.Trace.Prefix().Messages() {
		out = append(out, m.Calls...)
	}
	return out
}

// Calls compares the calls of all turns with those wanted, in any order unless ordered.
// The reward is the share of wanted calls that were made, each by its own call.
func Calls(want []WantCall, ordered bool) Grader {
	o := wantedCalls{Ordered: ordered, Arguments: "subset"}
	return o.grader(want)
}

// wantedCalls compares the calls that were made with the expected ones.
type wantedCalls struct {
	Field     string `yaml:"field"`
	Ordered   bool   `yaml:"ordered"`
	Arguments string `yaml:"arguments"` // subset, exact, ignore
	Defaults  bool   `yaml:"defaults"`  // arguments left out have the default of the tool's schema
	Only      bool   `yaml:"only"`      // a further call makes it 0
	All       bool   `yaml:"all"`       // 1 or 0 instead of a share
}

func (o *wantedCalls) check() error {
	how := []string{"subset", "exact", "ignore"}
	if !slices.Contains(how, o.Arguments) {
		return fmt.Errorf("arguments %q: have subset, exact, ignore%s", o.Arguments, nearest.Hint(o.Arguments, how))
	}
	return nil
}

func (o *wantedCalls) bind(row datasets.Row) (Grader, error) {
	raw, name, err := field(row, cmp.Or(o.Field, "expected_tools"))
	if err != nil {
		return nil, err
	}
	want, err := wanted(raw)
	if err != nil {
		return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
	}
	return o.grader(want), nil
}

func (o *wantedCalls) binary() bool { return o.All }

func (o *wantedCalls) grader(want []WantCall) Grader {
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		made := made(ep)
		read := o.read(made, ep.Trace.Tools)
		fits := func(i, j int) bool { return o.fits(want[i], read[j]) }
		hits := 0
		if o.Ordered {
			hits = inOrder(len(want), len(made), fits)
		} else {
			hits = matching(len(want), len(made), fits)
		}
		s := trajectory.Score{Reward: float64(hits) / float64(len(want)),
			Metrics: map[string]float64{"calls_wanted": float64(len(want)), "calls_made": float64(len(made))},
			Detail:  fmt.Sprintf("%d of %d wanted calls", hits, len(want))}
		if o.All && hits < len(want) {
			s.Reward = 0
		}
		if o.Only && len(made) > hits {
			s.Reward, s.Detail = 0, s.Detail+fmt.Sprintf(", and %d others", len(made)-hits)
		}
		return s, nil
	})
}

// arguments of one call; nil: they are no object.
type callRead struct {
	name string
	args map[string]any
}

// read decodes the calls once, with the defaults of the tools if asked.
func (o *wantedCalls) read(made []trajectory.Call, tools []trajectory.ToolSpec) []callRead {
	out := make([]callRead, len(made))
	for i, c := range made {
		out[i] = callRead{c.Name, object(c.Arguments)}
		if !o.Defaults || out[i].args == nil {
			continue
		}
		for k, v := range defaults(tools, c.Name) {
			if _, ok := out[i].args[k]; !ok {
				out[i].args[k] = v
			}
		}
	}
	return out
}

func object(text string) map[string]any {
	text = cmp.Or(text, "{}")
	v, err := readJSON([]byte(text))
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

// defaults are those of a tool's schema.
func defaults(tools []trajectory.ToolSpec, name string) map[string]any {
	out := map[string]any{}
	for _, t := range tools {
		if t.Name != name {
			continue
		}
		var schema struct {
			Properties map[string]struct{ Default json.RawMessage }
		}
		if json.Unmarshal(t.Parameters, &schema) != nil {
			return nil
		}
		for k, p := range schema.Properties {
			if v, err := readJSON(p.Default); len(p.Default) > 0 && err == nil {
				out[k] = v
			}
		}
	}
	return out
}

func (o *wantedCalls) fits(w WantCall, c callRead) bool {
	if w.Name != c.name {
		return false
	}
	if o.Arguments == "ignore" || w.Compare != nil && len(w.Compare) == 0 {
		return true
	}
	if c.args == nil {
		return len(w.Arguments) == 0 && o.Arguments == "subset"
	}
	same := jsonEqual{}
	for k, raw := range w.Arguments {
		if w.Compare != nil && !slices.Contains(w.Compare, k) {
			continue
		}
		got, ok := c.args[k]
		v, err := readJSON(raw)
		if !ok || err != nil || same.differ(v, got, "$") != "" {
			return false
		}
	}
	if o.Arguments == "exact" && w.Compare == nil {
		for k := range c.args {
			if _, ok := w.Arguments[k]; !ok {
				return false
			}
		}
	}
	return true
}

// wanted reads names, or a list of {name, arguments}.
func wanted(raw json.RawMessage) ([]WantCall, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("expected_tools %s: want names or a list of {name, arguments}", clip(raw))
	}
	want := make([]WantCall, len(list))
	for i, one := range list {
		if json.Unmarshal(one, &want[i].Name) == nil {
			continue
		}
		if err := json.Unmarshal(one, &want[i]); err != nil || want[i].Name == "" {
			return nil, fmt.Errorf("expected_tools %s: want a name or {name, arguments}", clip(bytes.TrimSpace(one)))
		}
	}
	return want, nil
}

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

// functionCalls compares calls by the rules of the Berkeley Function Calling Leaderboard:
// gold is [{function: {parameter: [accepted values]}}], "" among them means that the
// parameter may be left out, and an empty list that no call is right. Calls may come in any
// order, each gold one needs its own call. The leaderboard takes the first call that
// fits each gold one in turn, which refuses valid sets; greedy does it that way.
type functionCalls struct {
	Field    string `yaml:"field"`    // default ground_truth
	Function string `yaml:"function"` // field with the schemas, default function
	Greedy   bool   `yaml:"greedy"`
}

// function is a schema with Python's names of types.
type function struct {
	Name       string
	Parameters struct {
		Properties map[string]property
		Required   []string
	}
}

type property struct {
	Type  string
	Items struct{ Type string }
}

type goldCall struct {
	name string
	args map[string][]any
}

func (o *functionCalls) bind(row datasets.Row) (Grader, error) {
	raw, name, err := field(row, cmp.Or(o.Field, "ground_truth"))
	if err != nil {
		return nil, err
	}
	gold, err := readGold(raw)
	if err != nil {
		return nil, fmt.Errorf("row %s: %s %s: %w", row.ID, name, clip(raw), err)
	}
	raw, name, err = field(row, cmp.Or(o.Function, "function"))
	if err != nil {
		return nil, err
	}
	var list []function
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("row %s: %s: want a list of functions: %w", row.ID, name, err)
	}
	schemas := map[string]function{}
	for _, f := range list {
		schemas[dotless(f.Name)] = f
	}
	for _, g := range gold {
		if _, ok := schemas[dotless(g.name)]; !ok {
			return nil, fmt.Errorf("row %s: no function %s among those of the row", row.ID, g.name)
		}
	}
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		return o.score(gold, schemas, made(ep)), nil
	}), nil
}

func readGold(raw json.RawMessage) ([]goldCall, error) {
	var list []map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("want a list of {function: {parameter: [accepted values]}}: %w", err)
	}
	var out []goldCall
	for _, one := range list {
		if len(one) != 1 {
			return nil, fmt.Errorf("want one function an entry, found %d", len(one))
		}
		for name, params := range one {
			g := goldCall{name, map[string][]any{}}
			for p, accepted := range params {
				v, err := readJSON(accepted)
				list, ok := v.([]any)
				if err != nil || !ok {
					return nil, fmt.Errorf("%s.%s: want a list of accepted values", name, p)
				}
				g.args[p] = list
			}
			out = append(out, g)
		}
	}
	return out, nil
}

// dotless is a name as clients write it that forbid dots.
func dotless(name string) string { return strings.ReplaceAll(name, ".", "_") }

func (o *functionCalls) binary() bool { return true }

func (o *functionCalls) score(gold []goldCall, schemas map[string]function, calls []trajectory.Call) trajectory.Score {
	if len(calls) != len(gold) {
		return verdict(false, fmt.Sprintf("%d calls, want %d", len(calls), len(gold)))
	}
	args := make([]map[string]any, len(calls))
	for i, c := range calls {
		args[i] = object(c.Arguments)
	}
	why := ""
	fits := func(i, j int) bool {
		w := misfit(gold[i], schemas[dotless(gold[i].name)], calls[j].Name, args[j])
		why = cmp.Or(why, w)
		return w == ""
	}
	hits := 0
	if o.Greedy {
		used := make([]bool, len(calls))
		for i := range gold {
			for j := range calls {
				if !used[j] && fits(i, j) {
					used[j] = true
					hits++
					break
				}
			}
		}
	} else {
		hits = matching(len(gold), len(calls), fits)
	}
	if hits == len(gold) {
		return verdict(true, fmt.Sprintf("all of %d calls", len(gold)))
	}
	return verdict(false, fmt.Sprintf("%d of %d calls: %s", hits, len(gold), why))
}

// misfit says why a call is not the gold one; "": it is.
func misfit(g goldCall, f function, name string, args map[string]any) string {
	switch {
	case dotless(name) != dotless(g.name):
		return "called " + name + ", want " + g.name
	case args == nil:
		return name + ": the arguments are no object"
	}
	for _, p := range f.Parameters.Required {
		if _, ok := args[p]; !ok {
			return name + ": no " + p
		}
	}
	for p, v := range args {
		schema, declared := f.Parameters.Properties[p]
		accepted, ok := g.args[p]
		if !declared || !ok {
			return name + ": unexpected " + p
		}
		if !accepts(schema, accepted, v) {
			return fmt.Sprintf("%s: %s is %.80v", name, p, v)
		}
	}
	for p, accepted := range g.args {
		if _, ok := args[p]; !ok && !slices.Contains(accepted, any("")) {
			return name + ": no " + p
		}
	}
	return ""
}

// pythonType is the type that Python gives a JSON value.
func pythonType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "float"
		}
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "dict"
	}
	return "null"
}

// typed tells whether a value is of a declared type.
func typed(declared string, v any) bool {
	t := pythonType(v)
	switch declared {
	case "any", "":
		return true
	case "tuple":
		declared = "array"
	case "object":
		declared = "dict"
	case "number":
		declared = "float"
	}
	return t == declared || declared == "float" && t == "integer"
}

// accepts checks type, then value.
func accepts(p property, accepted []any, v any) bool {
	if !typed(p.Type, v) || !itemsTyped(p, v) {
		// a variable's name, say: a value of the gold's own type passes
		if !slices.ContainsFunc(accepted, func(a any) bool { return a != "" && pythonType(a) == pythonType(v) }) {
			return false
		}
	}
	return slices.ContainsFunc(accepted, func(a any) bool { return equalValue(a, v) })
}

func itemsTyped(p property, v any) bool {
	list, ok := v.([]any)
	if !ok || p.Items.Type == "" {
		return true
	}
	return !slices.ContainsFunc(list, func(x any) bool { return !typed(p.Items.Type, x) })
}

// equalValue compares a value with an accepted one. An accepted object holds a list of
// accepted values under each key.
func equalValue(accepted, v any) bool {
	switch a := accepted.(type) {
	case string:
		s, ok := v.(string)
		return ok && loose(a) == loose(s)
	case json.Number:
		n, ok := v.(json.Number)
		return ok && sameNumber(a, n)
	case []any:
		list, ok := v.([]any)
		return ok && slices.EqualFunc(a, list, equalValue)
	case map[string]any:
		m, ok := v.(map[string]any)
		return ok && equalObject(a, m)
	}
	return accepted == v
}

func equalObject(accepted, m map[string]any) bool {
	for k := range m {
		if _, ok := accepted[k]; !ok {
			return false
		}
	}
	for k, a := range accepted {
		list, ok := a.([]any)
		v, given := m[k]
		switch {
		case !given && !(ok && slices.Contains(list, any(""))):
			return false
		case given && !(ok && slices.ContainsFunc(list, func(x any) bool { return equalValue(x, v) })) && !equalValue(a, v):
			return false
		}
	}
	return true
}

// loose is a string without what the leaderboard does not look at.
func loose(s string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", ",", "", ".", "", "/", "", "-", "", "_", "", "*", "", "^", "", "'", `"`).Replace(s))
}

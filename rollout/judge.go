package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/envs"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// judgeTries is how often a judge is asked for an answer that can be read.
const judgeTries = 3

// NewJudge returns a judge for a scorer that runs outside of a rollout. used is told what
// it cost; it belongs to one goroutine, as the judge does.
func NewJudge(p policy.Policy, o policy.Options, used *trajectory.Judged) envs.Judge {
	used.Model = p.Info().Model
	return &judge{policy: p, o: o, used: used}
}

// judgedBy adds up what several judges did. The one without a name alone stands for itself.
func judgedBy(by map[string]*trajectory.Judged) *trajectory.Judged {
	sum := &trajectory.Judged{}
	var models []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		j := by[name]
		if j.Asked == 0 {
			continue
		}
		one := *j
		one.Name = name
		sum.Members = append(sum.Members, one)
		sum.Asked += j.Asked
		sum.Usage = sum.Usage.Add(j.Usage)
		models = append(models, j.Model)
	}
	switch {
	case len(sum.Members) == 0:
		return nil
	case len(sum.Members) == 1 && sum.Members[0].Name == "":
		return &sum.Members[0]
	}
	sum.Model = strings.Join(models, "+")
	return sum
}

// judge asks a model for the scorer of one rollout. Its answers go on the rollout's tape
// behind those of the rollout itself, so that a resumed one does not buy them again.
type judge struct {
	policy policy.Policy
	o      policy.Options
	used   *trajectory.Judged // what it cost, kept in the record
}

// Ask asks until the answer is a JSON object that fits the schema. What could not be
// read is shown to the model with the reason.
func (j *judge) Ask(ctx context.Context, prompt string, schema json.RawMessage) (json.RawMessage, error) {
	s, err := j.policy.Open(nil, j.o)
	if err != nil {
		return nil, &judgeError{err}
	}
	defer s.Close()
	t := trajectory.New(j.policy.Info().Mode, nil)
	ask := prompt + "\nAnswer with one JSON object that fits this schema, and nothing else:\n" + string(schema) + "\n"
	pending := []trajectory.Message{trajectory.Text(trajectory.User, ask)}
	for try := 1; ; try++ {
		turn, err := s.Next(ctx, t.Prefix(), pending, nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			_, err = t.Commit(turn)
		}
		if err != nil {
			return nil, &judgeError{err}
		}
		j.used.Asked++
		j.used.Usage = j.used.Usage.Add(turn.Usage)
		text := turn.Sampled.Message.Content()
		raw, err := readObject(text, schema)
		switch {
		case err == nil:
			return raw, nil
		case turn.Finish == trajectory.FinishFilter:
			return nil, &judgeError{fmt.Errorf("%s refused to judge: %.300s", j.used.Model, text)}
		case try == judgeTries:
			return nil, &judgeError{fmt.Errorf("%s gave no answer that can be read in %d tries: %w: %.300q", j.used.Model, try, err, text)}
		}
		pending = []trajectory.Message{trajectory.Text(trajectory.User,
			"That could not be read: "+err.Error()+". Answer again, with the JSON object alone.")}
	}
}

// judgeError is the judge's failure. It hides the error of the model request, whose kind
// would count as the rollout's own; but a spent budget ends the run all the same.
type judgeError struct{ err error }

func (e *judgeError) Error() string { return e.err.Error() }

// Is tells graders that the judge failed, unless it is the budget that is spent.
func (e *judgeError) Is(target error) bool { return target == envs.ErrJudge && e.Unwrap() == nil }

// Unwrap returns the cause if it is a spent budget.
func (e *judgeError) Unwrap() error {
	var pe *policy.Error
	if errors.As(e.err, &pe) && pe.Kind == policy.Budget {
		return pe
	}
	return nil
}

// readObject finds the object in a model's answer, which may stand in a code fence or
// behind some words, and checks it against the schema.
func readObject(text string, schema json.RawMessage) (json.RawMessage, error) {
	var why error = errors.New("there is no JSON object in it")
	for i := strings.IndexByte(text, '{'); i >= 0; {
		d := json.NewDecoder(strings.NewReader(text[i:]))
		var raw json.RawMessage
		if err := d.Decode(&raw); err == nil {
			if why = fits(raw, schema, "the answer"); why == nil {
				return raw, nil
			}
			i += len(raw) - 1
		}
		next := strings.IndexByte(text[i+1:], '{')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return nil, why
}

// shape is the part of JSON Schema that is checked of a judge's answer.
type shape struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	Minimum    *float64                   `json:"minimum"`
	Maximum    *float64                   `json:"maximum"`
	MinItems   *int                       `json:"minItems"`
	MaxItems   *int                       `json:"maxItems"`
	Enum       []json.RawMessage          `json:"enum"`
}

// fits checks types, required members, bounds and enumerations.
func fits(raw, schema json.RawMessage, where string) error {
	if len(schema) == 0 {
		return nil
	}
	var s shape
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema of %s: %w", where, err)
	}
	if len(s.Enum) > 0 && !among(raw, s.Enum) {
		return fmt.Errorf("%s is none of the allowed values", where)
	}
	switch s.Type {
	case "object":
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil || o == nil {
			return fmt.Errorf("%s is no object", where)
		}
		for _, name := range s.Required {
			if _, ok := o[name]; !ok {
				return fmt.Errorf("%s has no %q", where, name)
			}
		}
		for name, v := range o {
			if err := fits(v, s.Properties[name], fmt.Sprintf("%q", name)); err != nil {
				return err
			}
		}
	case "array":
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return fmt.Errorf("%s is no list", where)
		}
		if s.MinItems != nil && len(list) < *s.MinItems || s.MaxItems != nil && len(list) > *s.MaxItems {
			return fmt.Errorf("%s has %d elements", where, len(list))
		}
		for i, v := range list {
			if err := fits(v, s.Items, fmt.Sprintf("element %d of %s", i+1, where)); err != nil {
				return err
			}
		}
	case "string":
		var v *string
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return fmt.Errorf("%s is no text", where)
		}
	case "number", "integer":
		var v *float64
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return fmt.Errorf("%s is no number", where)
		}
		if s.Minimum != nil && *v < *s.Minimum || s.Maximum != nil && *v > *s.Maximum {
			return fmt.Errorf("%s is %g, out of range", where, *v)
		}
	}
	return nil
}

func among(raw json.RawMessage, list []json.RawMessage) bool {
	for _, v := range list {
		if string(v) == string(raw) {
			return true
		}
	}
	return false
}

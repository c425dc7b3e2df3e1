package grade

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Criterion is one line of a rubric. A weight of 0 counts as 1.
type Criterion struct {
	Text   string
	Weight float64
}

// RubricOptions tune [Rubric].
type RubricOptions struct {
	Reference string // a gold answer that the judge is shown; empty: none
	Account   int    // bytes of the account of tool calls that the judge is shown; 0: 12,000
}

// ParseRubric reads a row's rubric: text, a list of texts, a list of objects, or
// {"criteria": list}. An object's text is the first of criterion, description, text,
// requirement, name; its weight the first of weight, points.
func ParseRubric(raw json.RawMessage) ([]Criterion, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if strings.TrimSpace(text) == "" {
			return nil, errors.New("the rubric is empty")
		}
		return []Criterion{{Text: strings.TrimSpace(text)}}, nil
	}
	var whole struct{ Criteria json.RawMessage }
	if json.Unmarshal(raw, &whole) == nil && whole.Criteria != nil {
		raw = whole.Criteria
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("rubric %.80s: want text, a list of criteria, or {\"criteria\": [...]}", raw)
	}
	out := make([]Criterion, len(list))
	for i, one := range list {
		var err error
		out[i], err = criterion(one)
		if err != nil {
			return nil, fmt.Errorf("rubric, criterion %d: %w", i+1, err)
		}
	}
	return out, nil
}

func criterion(raw json.RawMessage) (Criterion, error) {
	var c Criterion
	if json.Unmarshal(raw, &c.Text) != nil {
		var o struct {
			Criterion, Description, Text, Requirement, Name string
			Weight, Points                                  float64
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return c, fmt.Errorf("%.80s: want text or an object: %w", raw, err)
		}
		for _, s := range []string{o.Criterion, o.Description, o.Text, o.Requirement, o.Name} {
			c.Text = cmp.Or(c.Text, s)
		}
		c.Weight = o.Weight
		c.Weight = cmp.Or(c.Weight, o.Points)
	}
	c.Text = strings.TrimSpace(c.Text)
	if c.Text == "" {
		return c, fmt.Errorf("%.80s says nothing", raw)
	}
	if c.Weight < 0 {
		return c, fmt.Errorf("weight %g is negative", c.Weight)
	}
	return c, nil
}

//go:embed judge.md
var instructions string

const (
	oneSchema = `{"type":"object","properties":{"reason":{"type":"string"},"score":{"type":"number","minimum":0,"maximum":1}},"required":["reason","score"]}`
	// %d is the number of criteria.
	listSchema = `{"type":"object","properties":{"criteria":{"type":"array","minItems":%[1]d,"maxItems":%[1]d,"items":{"type":"object","properties":{"reason":{"type":"string"},"score":{"type":"number","minimum":0,"maximum":1}},"required":["reason","score"]}}},"required":["criteria"]}`
)

// Rubric has a model judge an episode. The reward is the judge's score from 0 to 1, for
// several criteria their weighted mean; Parts holds theirs as criterion_1 and so on. What
// the judged model wrote is fenced by a mark that it cannot know, and the prompt says that
// nothing within is meant for the judge. A judge that fails, refuses or does not answer as
// it should is an error, never a score.
func Rubric(criteria []Criterion, o RubricOptions) (Grader, error) {
	if len(criteria) == 0 {
		return nil, errors.New("grader rubric: no criteria")
	}
	o.Account = cmp.Or(o.Account, 12_000)
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Judge == nil {
			return trajectory.Score{}, errors.New("grader rubric: this run has no judge; give --model-role judge=MODEL")
		}
		schema := json.RawMessage(oneSchema)
		if len(criteria) > 1 {
			schema = json.RawMessage(fmt.Sprintf(listSchema, len(criteria)))
		}
		raw, err := w.Judge.Ask(ctx, question(criteria, o, w, ep), schema)
		if err != nil {
			return trajectory.Score{}, fmt.Errorf("grader rubric: %w", err)
		}
		score, err := readVerdict(raw, criteria)
		return noted(score, Answer(ep)), err
	}), nil
}

// question is what the judge is asked.
func question(criteria []Criterion, o RubricOptions, w envs.World, ep envs.Episode) string {
	mark := strconv.FormatUint(w.Rand.Uint64(), 36)
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(instructions, "{{mark}}", mark))
	section := func(name, text string) {
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, "\n<%s %s>\n%s\n</%s %s>\n", name, mark, strings.TrimSpace(text), name, mark)
		}
	}
	task, account := retell(ep, o.Account)
	section("task", task)
	section("reference", o.Reference)
	section("work", account)
	answer := Answer(ep)
	answer = cmp.Or(answer, "(the assistant gave no answer)")
	section("answer", answer)
	b.WriteString("\nThe rubric:\n")
	for i, c := range criteria {
		if len(criteria) == 1 {
			b.WriteString(c.Text + "\n")
			continue
		}
		fmt.Fprintf(&b, "%d. %s\n", i+1, c.Text)
	}
	if len(criteria) > 1 {
		fmt.Fprintf(&b, "\nGive each of the %d criteria its own reason and score, in this order.\n", len(criteria))
	}
	return b.String()
}

// retell gives what the user asked, and what the model did with its tools in at most
// limit bytes.
func retell(ep envs.Episode, limit int) (task, account string) {
	var asked, did strings.Builder
	for m := range ep.Trace.Prefix().Messages() {
		switch m.Role {
		case trajectory.User:
			asked.WriteString(m.Content() + "\n\n")
		case trajectory.Assistant:
			for _, c := range m.Calls {
				fmt.Fprintf(&did, "call %s %s\n", c.Name, short(c.Arguments))
			}
		case trajectory.Tool:
			fmt.Fprintf(&did, "result %s\n", short(m.Content()))
		}
	}
	account = did.String()
	if len(account) > limit {
		half := limit / 2
		account = strings.ToValidUTF8(account[:half], "") + "\n…\n" + strings.ToValidUTF8(account[len(account)-half:], "")
	}
	return asked.String(), account
}

type mark struct {
	Reason string   `json:"reason"`
	Score  *float64 `json:"score"`
}

// readVerdict makes a score of the judge's answer, which fits the schema unless the
// judge is one of ours.
func readVerdict(raw json.RawMessage, criteria []Criterion) (trajectory.Score, error) {
	var v struct {
		mark
		Criteria []mark `json:"criteria"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return trajectory.Score{}, fmt.Errorf("the judge's verdict %.200s: %w", raw, err)
	}
	if len(criteria) == 1 {
		v.Criteria = []mark{v.mark}
	}
	if len(v.Criteria) != len(criteria) {
		return trajectory.Score{}, fmt.Errorf("the judge gave %d scores for %d criteria", len(v.Criteria), len(criteria))
	}
	s := trajectory.Score{Detail: v.Criteria[0].Reason}
	if len(criteria) > 1 {
		s.Parts, s.Detail = map[string]float64{}, ""
	}
	sum, weights := 0.0, 0.0
	for i, m := range v.Criteria {
		if m.Score == nil || math.IsNaN(*m.Score) || *m.Score < 0 || *m.Score > 1 {
			return trajectory.Score{}, fmt.Errorf("the judge's score for criterion %d is not between 0 and 1: %.200s", i+1, raw)
		}
		weight := criteria[i].Weight
		weight = cmp.Or(weight, 1)
		sum, weights = sum+weight**m.Score, weights+weight
		if len(criteria) > 1 {
			s.Parts["criterion_"+strconv.Itoa(i+1)] = *m.Score
			s.Detail += fmt.Sprintf("%d: %g, %s\n", i+1, *m.Score, m.Reason)
		}
	}
	s.Reward, s.Detail = sum/weights, short(s.Detail)
	return s, nil
}

// rubric has the judge decide, with a gold answer at hand where there is one. A row that
// has the gold answer alone is judged by that.
type rubric struct {
	Text  any    `yaml:"rubric"` // instead of the row's: text, or a list of criteria with weights
	Field string `yaml:"field"`  // of the row's rubric
	Judge string `yaml:"judge"`  // its name; "": the one without

	own []Criterion
}

func (o *rubric) check() error {
	if o.Text == nil {
		return nil
	}
	raw, err := json.Marshal(o.Text)
	if err != nil {
		return fmt.Errorf("rubric: %w", err)
	}
	o.own, err = ParseRubric(raw)
	return err
}

func (o *rubric) bind(row datasets.Row) (Grader, error) {
	var ro RubricOptions
	s := row.Scoring
	for _, raw := range []json.RawMessage{s.Answer, s.GroundTruth, s.Solution} {
		if len(raw) > 0 && ro.Reference == "" {
			ro.Reference = plain(raw)
		}
	}
	criteria, err := o.criteria(row, ro.Reference)
	if err != nil {
		return nil, err
	}
	g, err := Rubric(criteria, ro)
	if err != nil {
		return nil, err
	}
	return asking(o.Judge, g), nil
}

func (o *rubric) criteria(row datasets.Row, reference string) ([]Criterion, error) {
	if o.own != nil {
		return o.own, nil
	}
	name := cmp.Or(o.Field, "rubric")
	raw, _, err := field(row, name)
	switch {
	case err == nil:
		criteria, err := ParseRubric(raw)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
		return criteria, nil
	case reference != "" && o.Field == "":
		return []Criterion{{Text: "The answer says the same as the reference in everything that the task asks for."}}, nil
	}
	return nil, err
}

func (o *rubric) judges(datasets.Row) []string { return []string{o.Judge} }

package grade

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

//go:embed pairwise.md
var pairInstructions string

const pairSchema = `{"type":"object","properties":{"reason":{"type":"string"},"better":{"type":"string","enum":["first","second","tie"]}},"required":["reason","better"]}`

// Pairwise has the judge compare the answer with another one, twice, the second time with
// their places changed. The reward is 1 where both say that the answer is better, 0 where
// both prefer the other one, else ½: a judge that contradicts itself has said nothing.
// The metric first_wins is the share of the two questions in which what stood first won; its
// mean over many answers is ½ without a bias. consistent is 1 where the verdicts agree.
func Pairwise(criterion, other string) (Grader, error) {
	if strings.TrimSpace(other) == "" {
		return nil, errors.New("grader pairwise: nothing to compare with")
	}
	criterion = cmp.Or(strings.TrimSpace(criterion), "The better answer does what the task asks for, correctly and completely.")
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Judge == nil {
			return trajectory.Score{}, errors.New("grader pairwise: this run has no judge; give --model-role judge=MODEL")
		}
		mine := cmp.Or(Answer(ep), "(the assistant gave no answer)")
		var sum, firsts float64
		var said []string
		for swapped, pair := range [][2]string{{mine, other}, {other, mine}} {
			first, reason, err := preferred(ctx, w, ep, criterion, pair)
			if err != nil {
				return trajectory.Score{}, fmt.Errorf("grader pairwise: %w", err)
			}
			firsts += first
			if swapped == 1 {
				first = 1 - first
			}
			sum += first
			said = append(said, reason)
		}
		s := trajectory.Score{Reward: 0.5, Detail: short(strings.Join(said, " | ")), Metrics: map[string]float64{"first_wins": firsts / 2, "consistent": 0}}
		if sum == 0 || sum == 2 {
			s.Reward = sum / 2
		}
		if firsts == 1 { // won and lost, or two ties
			s.Metrics["consistent"] = 1
		}
		return noted(s, mine), nil
	}), nil
}

// preferred is 1 where the judge prefers the first of a pair, 0 the second, ½ neither.
func preferred(ctx context.Context, w envs.World, ep envs.Episode, criterion string, pair [2]string) (float64, string, error) {
	mark := strconv.FormatUint(w.Rand.Uint64(), 36)
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(pairInstructions, "{{mark}}", mark))
	task, _ := retell(ep, 0)
	for i, text := range []string{task, pair[0], pair[1]} {
		name := []string{"task", "first", "second"}[i]
		fmt.Fprintf(&b, "\n<%s %s>\n%s\n</%s %s>\n", name, mark, strings.TrimSpace(text), name, mark)
	}
	b.WriteString("\nThe criterion:\n" + criterion + "\n")
	raw, err := w.Judge.Ask(ctx, b.String(), json.RawMessage(pairSchema))
	if err != nil {
		return 0, "", err
	}
	var v struct{ Reason, Better string }
	if err := json.Unmarshal(raw, &v); err != nil {
		return 0, "", fmt.Errorf("the judge's verdict %.200s: %w", raw, err)
	}
	score, ok := map[string]float64{"first": 1, "second": 0, "tie": 0.5}[v.Better]
	if !ok {
		return 0, "", fmt.Errorf("the judge's verdict %.200s: better is first, second or tie", raw)
	}
	return score, v.Better + ": " + v.Reason, nil
}

// pairwise compares with the answer of another model or person, in a field of the row.
type pairwise struct {
	Field  string `yaml:"field"`  // the other answer; default: the gold answer
	Rubric string `yaml:"rubric"` // what makes an answer better
	Judge  string `yaml:"judge"`  // its name; "": the one without
}

func (o *pairwise) bind(row datasets.Row) (Grader, error) {
	raw, _, err := Gold{o.Field}.raw(row)
	if err != nil {
		return nil, err
	}
	g, err := Pairwise(o.Rubric, plain(raw))
	if err != nil {
		return nil, err
	}
	return asking(o.Judge, g), nil
}

func (o *pairwise) judges(datasets.Row) []string { return []string{o.Judge} }

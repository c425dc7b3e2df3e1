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

// NewJudge returns a judge for a scorer that runs outside of a rollout. The judge adds its cost
// to used. Both belong to one goroutine.
func NewJudge(p policy.Policy, o policy.Options, used *trajectory.Judged) envs.Judge {
	used.Model = p.Info().Model
	return &judge{policy: p, o: o, used: used}
}

// judgedBy adds up what several judges did. A single judge without a name is returned as it is.
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

// Ask asks until the answer is a verdict: see [verdictReader]. What could not be read is shown to
// the model with the reason.
func (j *judge) Ask(ctx context.Context, prompt string, schema json.RawMessage) (json.RawMessage, error) {
	b, err := newVerdictReader(prompt, schema, j.o)
	if err != nil {
		return nil, err // the environment's schema, no failure of the judge
	}
	s, err := j.policy.Open(nil, j.o)
	if err != nil {
		return nil, &judgeError{err}
	}
	defer s.Close()
	t := trajectory.New(j.policy.Info().Mode, nil)
	pending := []trajectory.Message{trajectory.Text(trajectory.User, prompt+b.rules())}
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
		j.keep(pending[0].Content(), text)
		raw, err := b.verdict(text)
		switch {
		case err == nil:
			return raw, nil
		case turn.Finish == trajectory.FinishFilter:
			return nil, &judgeError{fmt.Errorf("%s refused to judge: %.300s", j.used.Model, text)}
		case try == judgeTries:
			return nil, &judgeError{fmt.Errorf("%s gave no answer that can be read in %d tries: %w: %.300q", j.used.Model, try, err, text)}
		}
		pending = []trajectory.Message{trajectory.Text(trajectory.User,
			"That could not be read: "+err.Error()+". Answer again, with the JSON object alone. "+b.hint())}
	}
}

// What is kept of the questions to a judge and of its answers.
const (
	mostExchanges   = 8
	mostJudgePrompt = 32 << 10 // bytes
	mostJudgeAnswer = 8 << 10
)

// keep adds a question and its answer to the record, for people who check the verdict.
func (j *judge) keep(prompt, answer string) {
	if len(j.used.Exchanges) < mostExchanges {
		j.used.Exchanges = append(j.used.Exchanges, trajectory.Exchange{Prompt: cut(prompt, mostJudgePrompt), Answer: cut(answer, mostJudgeAnswer)})
	}
}

// cut is the beginning of a text of at most n bytes, and how much is missing.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("\n(%d more bytes)", len(text)-n)
}

// judgeError is the judge's failure. It hides the error of the model request, whose kind
// would count as the rollout's own; but a spent budget ends the run all the same.
type judgeError struct{ err error }

func (e *judgeError) Error() string { return e.err.Error() }

// Is tells graders that the judge failed, unless it is the budget that is spent.
func (e *judgeError) Is(target error) bool { return target == envs.ErrJudge && e.Unwrap() == nil }

// Unwrap returns the cause if it is a spent budget.
func (e *judgeError) Unwrap() error {
	if pe, ok := errors.AsType[*policy.Error](e.err); ok && pe.Kind == policy.Budget {
		return pe
	}
	return nil
}

// Package grade judges answers: exact text, numbers, patterns, commands run in the box,
// tool calls. A [Grader] is a value without state and safe for concurrent use.
package grade

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"hermes/backends"
	"hermes/envs"
	"hermes/trajectory"
)

// Grader judges an episode. An error means that the grader failed, never that the
// answer is wrong.
type Grader interface {
	Grade(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error)
}

// Func is a Grader.
type Func func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error)

// Grade calls f.
func (f Func) Grade(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	return f(ctx, w, ep)
}

// Answer is the text of the last assistant message.
func Answer(ep envs.Episode) string {
	last := ""
	for m := range ep.Trace.Prefix().Messages() {
		if m.Role == trajectory.Assistant {
			last = m.Content()
		}
	}
	return strings.TrimSpace(last)
}

func verdict(ok bool, detail string) trajectory.Score {
	s := trajectory.Score{Detail: detail}
	if ok {
		s.Reward = 1
	}
	return s
}

// Exact compares the answer with gold, white space trimmed.
func Exact(gold string) Grader {
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		got := Answer(ep)
		return verdict(got == strings.TrimSpace(gold), "answer "+short(got)), nil
	})
}

// Contains looks for gold in the answer, regardless of case.
func Contains(gold string) Grader {
	want := strings.ToLower(strings.TrimSpace(gold))
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		got := Answer(ep)
		return verdict(strings.Contains(strings.ToLower(got), want), "answer "+short(got)), nil
	})
}

// Regexp matches the answer against a pattern.
func Regexp(pattern string) (Grader, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("grader regexp: %w", err)
	}
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		got := Answer(ep)
		return verdict(re.MatchString(got), "answer "+short(got)), nil
	}), nil
}

var (
	numbers = regexp.MustCompile(`[-+]?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?|[-+]?\.\d+`)
	boxed   = regexp.MustCompile(`\\boxed\{([^{}]*)\}`)
)

// Number compares the last number of the answer (after "####", in \boxed{}, or anywhere)
// with that of gold, as exact rationals: 1,000 equals 1000.0.
func Number(gold string) (Grader, error) {
	want, ok := number(gold)
	if !ok {
		return nil, fmt.Errorf("grader number: %q has no number", gold)
	}
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		text := Answer(ep)
		got, ok := number(text)
		if !ok {
			return verdict(false, "no number in "+short(text)), nil
		}
		return verdict(got.Cmp(want) == 0, "read "+got.RatString()), nil
	}), nil
}

func number(text string) (*big.Rat, bool) {
	if at := strings.LastIndex(text, "####"); at >= 0 {
		text = text[at+4:]
	} else if m := boxed.FindAllStringSubmatch(text, -1); m != nil {
		text = m[len(m)-1][1]
	}
	all := numbers.FindAllString(text, -1)
	if len(all) == 0 {
		return nil, false
	}
	return new(big.Rat).SetString(strings.NewReplacer(",", "", "$", "", "+", "").Replace(all[len(all)-1]))
}

// Command runs a checker in the agent's own box: exit 0 passes. A line
// `reward: NUMBER` on its output (the last one) is the reward instead. Exit codes
// 126 and 127 and a time-out mean that the checker itself failed.
func Command(c backends.Cmd) Grader {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Box == nil {
			return trajectory.Score{Detail: "the box is gone: " + ep.Stop.Detail}, nil
		}
		c := c
		c.Stdin = []byte(Answer(ep))
		res, err := w.Box.Exec(ctx, c)
		if err != nil {
			return trajectory.Score{}, fmt.Errorf("checker: %w", err)
		}
		if w.Saw != nil {
			w.Saw(envs.Exhibit{Name: "checker", Cmd: c, Result: res})
		}
		out := string(res.Stdout) + string(res.Stderr)
		switch {
		case res.TimedOut:
			return trajectory.Score{}, fmt.Errorf("checker: no end after %v", c.Timeout)
		case res.Code == 126 || res.Code == 127:
			return trajectory.Score{}, fmt.Errorf("checker: exit %d: %s", res.Code, short(out))
		}
		s := verdict(res.Code == 0, fmt.Sprintf("exit %d: %s", res.Code, short(out)))
		if r, ok := rewardLine(string(res.Stdout)); ok {
			s.Reward = r
		}
		return s, nil
	})
}

var rewardAt = regexp.MustCompile(`(?m)^reward: *([-+0-9.eE]+) *$`)

func rewardLine(out string) (float64, bool) {
	m := rewardAt.FindAllStringSubmatch(out, -1)
	if m == nil {
		return 0, false
	}
	var f float64
	err := json.Unmarshal([]byte(m[len(m)-1][1]), &f)
	return f, err == nil
}

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

func short(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 300 {
		return string(r[:150]) + " … " + string(r[len(r)-150:])
	}
	return s
}

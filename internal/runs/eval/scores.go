package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"hermes/envs/grade/report"
	"hermes/internal/exit"
	"hermes/internal/late"
	"hermes/trajectory"
)

var scoreName = late.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// scoresHead is scores/NAME.head.json: by what was judged.
type scoresHead struct {
	Grader string            `json:"grader"`
	Judges map[string]string `json:"judges,omitempty"` // models by role
}

// scoreLine is a line of scores/NAME.jsonl.
type scoreLine struct {
	Key    trajectory.Key `json:"key"`
	ID     string         `json:"id"`
	Sample int            `json:"sample"`
	trajectoryScore
	Error string   `json:"error,omitempty"`
	Was   *float64 `json:"was"`
}

// trajectoryScore is a score whose reward may be missing.
type trajectoryScore struct {
	Reward  *float64           `json:"reward"`
	Parts   map[string]float64 `json:"rewards,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	Answer  string             `json:"answer,omitempty"`
}

// readScores is what a re-scoring found, by key.
func readScores(dir, name string) (rescored, error) {
	if name == "" {
		return nil, nil
	}
	if !scoreName.MatchString(name) {
		return nil, fmt.Errorf("scores %q: want letters, digits, . _ -", name)
	}
	f, err := os.Open(filepath.Join(dir, "scores", name+".jsonl"))
	if err != nil {
		return nil, fmt.Errorf("scores %s: %w", name, err)
	}
	defer f.Close()
	over := rescored{}
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		raw, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(raw)) > 0 {
			var l scoreLine
			if err := json.Unmarshal(raw, &l); err != nil {
				return nil, fmt.Errorf("scores %s: line %d: %w", name, len(over)+1, err)
			}
			over[l.Key] = l.verdict()
		}
		if err == io.EOF {
			return over, nil
		}
		if err != nil {
			return nil, fmt.Errorf("scores %s: %w", name, err)
		}
	}
}

// rescored are new scores, by sample.
type rescored map[trajectory.Key]verdict

type verdict struct {
	reward float64 // NaN: none
	wanted float64
	answer string
	failed bool // the grader failed
}

func (l *scoreLine) verdict() verdict {
	x := verdict{reward: math.NaN(), wanted: l.Metrics["calls_wanted"], answer: l.Answer, failed: l.Error != ""}
	if l.Reward != nil {
		x.reward = *l.Reward
	}
	return x
}

// lay puts the new score in the place of the old one.
func (o rescored) lay(s report.Sample, k trajectory.Key) report.Sample {
	if v, ok := o[k]; ok {
		return v.lay(s)
	}
	if s.Failure == "" { // it ended after the scoring
		s.Reward = nil
	}
	return s // nothing to judge
}

func (v verdict) lay(s report.Sample) report.Sample {
	if v.failed {
		s.Failure, s.Reward = trajectory.Environment, nil
		return s
	}
	s.Failure = ""
	if math.IsNaN(v.reward) {
		return scored(s, nil)
	}
	return scored(s, &trajectory.Score{Reward: v.reward, Metrics: map[string]float64{"calls_wanted": v.wanted}, Answer: v.answer})
}

func readScoresHead(dir, name string) (h scoresHead, err error) {
	if !scoreName.MatchString(name) {
		return h, exit.Usage(fmt.Errorf("scores %q: want letters, digits, . _ -", name))
	}
	raw, err := os.ReadFile(filepath.Join(dir, "scores", name+".head.json"))
	if err != nil {
		return h, exit.Usage(fmt.Errorf("%s has no scores %s: hermes eval score makes them: %w", dir, name, err))
	}
	return h, json.Unmarshal(raw, &h)
}

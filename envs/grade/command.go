package grade

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Command runs a checker in the agent's own box: exit 0 passes. A line
// `reward: NUMBER` on its output (the last one) is the reward instead. Exit codes
// 126 and 127, a time-out, and a reward that is no finite number mean that the checker
// itself failed.
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
		if m := rewardAt.FindAllStringSubmatch(string(res.Stdout), -1); m != nil {
			if s.Reward, err = strconv.ParseFloat(m[len(m)-1][1], 64); err != nil || math.IsNaN(s.Reward) || math.IsInf(s.Reward, 0) {
				return trajectory.Score{}, fmt.Errorf("checker: %q: want a finite number", strings.TrimSpace(m[len(m)-1][0]))
			}
		}
		return s, nil
	})
}

var rewardAt = regexp.MustCompile(`(?m)^reward: *(\S+)[ \t\r]*$`)

// command runs a command of its own, or the row's checker, in the agent's box.
type command struct {
	Field   string        `yaml:"field"`
	Command string        `yaml:"command"`
	Dir     string        `yaml:"dir"`
	Timeout time.Duration `yaml:"timeout"`
}

func (o *command) check() error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %v is negative", o.Timeout)
	}
	return nil
}

func (o *command) bind(row datasets.Row) (Grader, error) {
	c := backends.Cmd{Shell: o.Command, Dir: o.Dir, Timeout: o.Timeout}
	if o.Command == "" {
		raw, _, err := field(row, cmp.Or(o.Field, "checker"))
		if err != nil {
			return nil, err
		}
		if c.Shell, c.Argv, err = words(raw); err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
	}
	return Command(c), nil
}

func (o *command) needsBox(datasets.Row) bool { return true }

// words reads a command: shell text or an argv.
func words(raw json.RawMessage) (shell string, argv []string, err error) {
	if text, ok := asText(raw); ok && text != "" {
		return text, nil, nil
	}
	if err := json.Unmarshal(raw, &argv); err != nil || len(argv) == 0 {
		return "", nil, fmt.Errorf("checker %s: want shell text or a list of words", clip(raw))
	}
	return "", argv, nil
}

package grade

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Command runs a checker in the box: exit 0 passes. The verdict may also stand in the file
// that $HERMES_REWARD names, or on the last line of the output that reads `reward: NUMBER`;
// see docs/graders.md. A checker that did not judge is an [envs.NoVerdict].
func Command(c backends.Cmd) Grader { return checkedBy(c, nil) }

func checkedBy(c backends.Cmd, in span) Grader {
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.MaxOutput = outputKept
	c.Keep = backends.KeepBoth
	c.Report = rewardVariable
	c.Env = map[string]string{"PYTHONNOUSERSITE": "1"} // what the model put into its home is no part of the checker
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Box == nil {
			return envs.Settled(ep), nil
		}
		c := c
		c.Stdin = []byte(Answer(ep))
		res, err := w.Check(ctx, "checker", c)
		if err != nil {
			return trajectory.Score{}, err
		}
		return verdictOf(w, res, in)
	})
}

// command runs the command of its options, or the row's checker, in the agent's box.
type command struct {
	Field   string        `yaml:"field"`
	Command string        `yaml:"command"`
	Dir     string        `yaml:"dir"`
	Timeout time.Duration `yaml:"timeout"`
	Range   span          `yaml:"range"`
}

func (o *command) check() error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %v is negative", o.Timeout)
	}
	return o.Range.check()
}

func (o *command) bind(row datasets.Row) (Grader, error) {
	c := backends.Cmd{Shell: o.Command, Dir: o.Dir, Timeout: o.Timeout}
	if o.Command == "" {
		raw, _, err := field(row, cmp.Or(o.Field, "checker"))
		if err != nil {
			return nil, err
		}
		c.Shell, c.Argv, err = words(raw)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
	}
	return checkedBy(c, o.Range), nil
}

func (o *command) needsBox(datasets.Row) bool { return true }

func (o *command) time(datasets.Row) time.Duration { return cmp.Or(o.Timeout, time.Minute) }

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

package grade

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Check is one look at the box. Kinds: file_equals and contains (path, text; white space
// at the end of a file does not count), sha256 (path, text), mode (path, text such as
// 755), absent (path), command (command: exit 0 holds), output (command, text: what it
// prints, white space at the end aside, is compared outside of the box, where no process
// can read what it ought to be).
type Check struct {
	Kind    string `json:"kind" yaml:"kind"`
	Path    string `json:"path,omitempty" yaml:"path"`
	Text    string `json:"text,omitempty" yaml:"text"`
	Command string `json:"command,omitempty" yaml:"command"`
}

// Valid tells what is wrong with the check.
func (c Check) Valid() error {
	switch c.Kind {
	case "file_equals", "contains", "sha256", "mode", "absent":
		if c.Path == "" || c.Text == "" && c.Kind != "absent" && c.Kind != "file_equals" {
			return fmt.Errorf("check %s wants path and text, has %q and %q", c.Kind, c.Path, c.Text)
		}
	case "command":
		if c.Command == "" {
			return errors.New("check command wants a command")
		}
	case "output":
		if c.Command == "" || c.Text == "" {
			return fmt.Errorf("check output wants command and text, has %q and %q", c.Command, c.Text)
		}
	default:
		return fmt.Errorf("check of kind %q: have file_equals, contains, sha256, mode, absent, command, output", c.Kind)
	}
	return nil
}

// State looks at what the agent left in its box. The reward is the share of checks that
// hold; it is 0 when one of forbid holds.
func State(checks, forbid []Check) Grader {
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Box == nil {
			return envs.Settled(ep), nil
		}
		for _, c := range forbid {
			held, err := c.forbids(ctx, w)
			if err != nil {
				return trajectory.Score{}, err
			}
			if held {
				return trajectory.Score{Detail: "forbidden: " + c.String()}, nil
			}
		}
		s := trajectory.Score{Metrics: map[string]float64{"checks": float64(len(checks))}}
		n := 0
		var missed []string
		for _, c := range checks {
			held, err := c.holds(ctx, w)
			switch {
			case err == errNoEnd: // what the model left hangs: that is a result
				missed = append(missed, c.String()+" ("+err.Error()+")")
			case err != nil:
				return trajectory.Score{}, err
			case held:
				n++
			default:
				missed = append(missed, c.String())
			}
		}
		s.Reward, s.Metrics["held"] = float64(n)/float64(len(checks)), float64(n)
		if len(missed) > 0 {
			s.Detail = "does not hold: " + strings.Join(missed, "; ")
		}
		return s, nil
	})
}

// String names the check without what it compares with.
func (c Check) String() string {
	if c.Kind == "command" || c.Kind == "output" {
		return c.Kind + " " + c.Command
	}
	return c.Kind + " " + c.Path
}

// forbids tells whether something forbidden holds. What cannot be looked at is no verdict:
// else it would pay to break the look.
func (c Check) forbids(ctx context.Context, w envs.World) (bool, error) {
	if c.Kind == "command" {
		res, err := w.Check(ctx, "check", backends.Cmd{Shell: c.Command, Timeout: checkTime})
		return res.Code == 0, err
	}
	held, err := c.holds(ctx, w)
	if err == errNoEnd {
		err = envs.Unjudged("forbidden %s: %v: whether it holds is not known", c, err)
	}
	return held, err
}

// checkTime is how long a check may take.
const checkTime = time.Minute

// errNoEnd says that a command, which is mostly of the model's making, did not end.
var errNoEnd = errors.New("no end after a minute")

// longest is how much of a file a check reads.
const longest = 16 << 20

func (c Check) holds(ctx context.Context, w envs.World) (bool, error) {
	if files, ok := backends.As[backends.Stater](w.Box); ok && (c.Kind == "mode" || c.Kind == "absent") {
		return c.looks(ctx, files) // by no program, which the model could have replaced
	}
	if cmd, ok := map[string]backends.Cmd{
		"command": {Shell: c.Command},
		"output":  {Shell: c.Command},
		"mode":    {Argv: []string{"stat", "-c", "%a", "--", c.Path}},
		"absent":  {Argv: []string{"test", "!", "-e", c.Path, "-a", "!", "-L", c.Path}},
	}[c.Kind]; ok {
		cmd.Timeout = checkTime
		res, err := w.Exec(ctx, "check", cmd)
		if err != nil {
			return false, err
		}
		switch {
		case res.TimedOut && c.Command != "":
			return false, errNoEnd
		case res.TimedOut:
			return false, envs.Unjudged("check %q: no end after %v", c, checkTime)
		case c.Kind == "output":
			return trimmed(string(res.Stdout)) == trimmed(c.Text), nil
		}
		return res.Code == 0 && (c.Kind != "mode" || strings.TrimSpace(string(res.Stdout)) == c.Text), nil
	}
	data, err := w.Box.ReadFile(ctx, c.Path, longest)
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return false, nil // missing, a folder, too long: what the model left
	}
	if err != nil {
		return false, fmt.Errorf("check %s: %w", c, err)
	}
	switch c.Kind {
	case "contains":
		return strings.Contains(string(data), c.Text), nil
	case "sha256":
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]) == c.Text, nil
	}
	return trimmed(string(data)) == trimmed(c.Text), nil
}

// looks is holds for what a file is, its content aside.
func (c Check) looks(ctx context.Context, files backends.Stater) (bool, error) {
	st, err := files.Stat(ctx, c.Path)
	var pe *fs.PathError
	switch {
	case errors.As(err, &pe):
		return c.Kind == "absent" && errors.Is(err, fs.ErrNotExist), nil
	case err != nil:
		return false, fmt.Errorf("check %s: %w", c, err)
	case c.Kind == "absent":
		return false, nil
	}
	mode := st.Mode.Perm()
	for bit, is := range map[fs.FileMode]bool{0o4000: st.Mode&fs.ModeSetuid != 0, 0o2000: st.Mode&fs.ModeSetgid != 0, 0o1000: st.Mode&fs.ModeSticky != 0} {
		if is {
			mode |= bit
		}
	}
	return strconv.FormatUint(uint64(mode), 8) == c.Text, nil
}

func trimmed(text string) string { return strings.TrimRight(text, " \t\r\n") }

// stateChecks are checks of the grader's own, or the fields checks and forbid of the row.
type stateChecks struct {
	Field  string  `yaml:"field"`
	Checks []Check `yaml:"checks"`
	Forbid []Check `yaml:"forbid"`
}

func (o *stateChecks) check() error {
	for _, c := range append(append([]Check{}, o.Checks...), o.Forbid...) {
		if err := c.Valid(); err != nil {
			return err
		}
	}
	return nil
}

func (o *stateChecks) bind(row datasets.Row) (Grader, error) {
	all := stateChecks{Checks: o.Checks, Forbid: o.Forbid}
	if len(all.Checks) == 0 {
		raw, name, err := field(row, cmp.Or(o.Field, "checks"))
		if err != nil {
			return nil, err
		}
		if err := strictJSON(raw, &all.Checks); err != nil || len(all.Checks) == 0 {
			return nil, fmt.Errorf("row %s: %s: want a list of checks: %w", row.ID, name, err)
		}
		if raw, _, err := field(row, "forbid"); err == nil && len(o.Forbid) == 0 {
			if err := strictJSON(raw, &all.Forbid); err != nil {
				return nil, fmt.Errorf("row %s: forbid: %w", row.ID, err)
			}
		}
	}
	if err := all.check(); err != nil {
		return nil, fmt.Errorf("row %s: %w", row.ID, err)
	}
	return State(all.Checks, all.Forbid), nil
}

func (o *stateChecks) needsBox(datasets.Row) bool { return true }

func strictJSON(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

package envtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// wholeBelow is the length below which a secret counts only as a whole line: a number
// such as 18 is part of many texts.
const wholeBelow = 8

// secrets are the texts that must not be found.
func secrets(env envs.Env, t envs.Task) []string {
	if h, ok := env.(envs.Hider); ok {
		return h.Hidden(t)
	}
	return gold(t.Row.Scoring)
}

// gold are the gold answers that a row names.
func gold(s datasets.Scoring) []string {
	var out []string
	for _, raw := range []json.RawMessage{s.Answer, s.Expected, s.GroundTruth, s.Solution} {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		text = strings.TrimSpace(text)
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// hidden searches all that a model sees before it has done anything.
func hidden(ctx context.Context, s *suite) error {
	looked := 0
	for _, row := range s.rows {
		t, err := s.env.Task(row)
		if err != nil {
			return err
		}
		find := secrets(s.env, t)
		if len(find) == 0 {
			continue
		}
		looked++
		if err := shown(t, find); err != nil {
			return fmt.Errorf("row %s: %w", row.ID, err)
		}
		look := &searching{wrapper: wrapper{s.env}, find: find, isolated: s.o.Isolated}
		rec, err := s.play.Play(ctx, look, row, 0, nil)
		if err != nil {
			return err
		}
		for _, spec := range rec.Tools {
			if at := within(spec.Description+"\n"+string(spec.Parameters), find); at != "" {
				return fmt.Errorf("row %s: tool %s tells %s", row.ID, spec.Name, at)
			}
		}
		if rec.Outcome.Failure() {
			return fmt.Errorf("row %s: %s", row.ID, rec.Reason)
		}
	}
	if looked == 0 {
		return skip("the environment names no hidden answers")
	}
	return nil
}

// shown looks for the secrets in the messages to the model and in the variables of its commands.
func shown(t envs.Task, find []string) error {
	for _, m := range t.Messages {
		if at := within(m.Content(), find); at != "" {
			return fmt.Errorf("the %s message tells %s", m.Role, at)
		}
	}
	for k, v := range t.Env {
		if at := within(v, find); at != "" {
			return fmt.Errorf("the variable %s holds %s", k, at)
		}
	}
	return nil
}

// within names the first secret that is in text.
func within(text string, find []string) string {
	for _, s := range find {
		s = strings.TrimSpace(s)
		found := s != "" && len(s) >= wholeBelow && strings.Contains(text, s)
		if !found && s != "" && !strings.Contains(s, "\n") {
			for line := range strings.Lines(text) {
				found = found || strings.TrimSpace(line) == s
			}
		}
		if found {
			return fmt.Sprintf("the hidden answer %q", clip(s))
		}
	}
	return ""
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// searching looks through the box when the model, having done nothing, is scored: that is
// all that a model could have read.
type searching struct {
	wrapper
	find     []string
	isolated bool
}

// listing prints the files of the folders that belong to the box; words of
// processes and variables follow.
const listing = `for d in . "$HOME" %s; do [ -d "$d" ] && find "$d" -xdev \( -type f -o -type l \) -size -4096k 2>/dev/null; done | sort -u | head -n 5000`

// Score searches, then scores.
func (e *searching) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	if w.Box == nil {
		return trajectory.Score{}, nil // no box, nothing to read
	}
	more := ""
	if e.isolated {
		more = "/tmp /var/tmp /root /home /srv /opt /mnt /workspace /testbed /app /tests /logs"
	}
	files, err := w.Box.Exec(ctx, backends.Cmd{Shell: fmt.Sprintf(listing, more), Timeout: time.Minute, MaxOutput: 4 << 20})
	if err != nil {
		return trajectory.Score{}, err
	}
	if files.TimedOut || files.Truncated {
		return trajectory.Score{}, fmt.Errorf("the box has too many files to be searched")
	}
	if at := within(string(files.Stdout), e.find); at != "" {
		return trajectory.Score{}, fmt.Errorf("the name of a file tells %s", at)
	}
	for _, name := range strings.Split(strings.TrimSpace(string(files.Stdout)), "\n") {
		if name == "" {
			continue
		}
		data, err := w.Box.ReadFile(ctx, name, 4<<20)
		if err != nil {
			continue // gone or unreadable for the model too
		}
		if at := within(string(data), e.find); at != "" {
			return trajectory.Score{}, fmt.Errorf("the file %s holds %s", name, at)
		}
	}
	seen := "env"
	if e.isolated { // elsewhere the processes are not the box's own
		seen = `env; for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null; true`
	}
	res, err := w.Box.Exec(ctx, backends.Cmd{Shell: seen, Timeout: time.Minute})
	if err != nil {
		return trajectory.Score{}, err
	}
	if at := within(string(res.Stdout), e.find); at != "" {
		return trajectory.Score{}, fmt.Errorf("variables or processes of the box show %s", at)
	}
	return trajectory.Score{}, nil
}

package grade

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"hermes/datasets"
)

// Regexp matches the answer against a pattern.
func Regexp(expr string) (Grader, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("grader regexp: %w", err)
	}
	return judged(func(got string) (bool, string) { return re.MatchString(got), "answer " + short(got) }), nil
}

// pattern looks for a pattern in the answer. Without the key pattern, the gold answer is the
// pattern. With a group, the group of the last match must be the gold answer.
type pattern struct {
	Field   string   `yaml:"field"`
	Pattern string   `yaml:"pattern"`
	Steps   []string `yaml:"steps"` // how the group and the gold answer are made alike
	re      *regexp.Regexp
}

func (o *pattern) check() (err error) {
	if err := (&exactText{Steps: o.Steps}).check(); err != nil {
		return err
	}
	if o.Pattern != "" {
		o.re, err = regexp.Compile(o.Pattern)
	}
	if err == nil && o.re != nil && o.re.NumSubexp() > 1 {
		err = errors.New("pattern: want at most one group; (?:…) groups without being one")
	}
	if o.Steps == nil {
		o.Steps = []string{"trim"}
	}
	return err
}

func (o *pattern) bind(row datasets.Row) (Grader, error) {
	if o.re == nil {
		raw, name, err := Gold{o.Field}.raw(row)
		if err != nil {
			return nil, err
		}
		g, err := Regexp(plain(raw))
		if err != nil {
			return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
		}
		return g, nil
	}
	if o.re.NumSubexp() == 0 {
		return judged(func(got string) (bool, string) { return o.re.MatchString(got), "answer " + short(got) }), nil
	}
	golds, err := Gold{o.Field}.texts(row)
	if err != nil {
		return nil, err
	}
	return judged(func(got string) (bool, string) {
		found, ok := o.key(row, got)
		if !ok {
			return false, "no match in " + short(got)
		}
		for _, g := range golds {
			if normal(g, o.Steps) == found {
				return true, "read " + short(found)
			}
		}
		return false, "read " + short(found)
	}), nil
}

func (o *pattern) binary() bool { return true }

func (o *pattern) key(_ datasets.Row, answer string) (string, bool) {
	if o.re == nil || o.re.NumSubexp() == 0 {
		return "", false
	}
	all := o.re.FindAllStringSubmatch(answer, -1)
	if all == nil {
		return "", false
	}
	return normal(strings.TrimSpace(all[len(all)-1][1]), o.Steps), true
}

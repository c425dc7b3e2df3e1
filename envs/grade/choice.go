package grade

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// multipleChoice compares the letter that was chosen: see [chosen]. An answer without one is
// not wrong but unread: it scores 0 with the metric unparsed.
type multipleChoice struct {
	Field   string `yaml:"field"`
	Choices string `yaml:"choices"` // field with the options' texts; default choices, options
}

// texts are the options' texts, if the row has them.
func (o *multipleChoice) texts(row datasets.Row) (list []string) {
	names := []string{"choices", "options"}
	if o.Choices != "" {
		names = []string{o.Choices}
	}
	raw, _, err := field(row, names...)
	if err != nil {
		return nil
	}
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var hf struct{ Text []string }
	var byLetter map[string]string
	if json.Unmarshal(raw, &hf) == nil && len(hf.Text) > 0 {
		return hf.Text
	}
	if json.Unmarshal(raw, &byLetter) == nil {
		for i := range 26 {
			text, ok := byLetter[string(rune('A'+i))]
			if !ok {
				break
			}
			list = append(list, text)
		}
	}
	return list
}

func (o *multipleChoice) count(row datasets.Row) int {
	if n := len(o.texts(row)); n > 0 {
		return min(n, 26)
	}
	return 26
}

func (o *multipleChoice) bind(row datasets.Row) (Grader, error) {
	raw, name, err := Gold{o.Field}.raw(row)
	if err != nil {
		return nil, err
	}
	want, ok := o.gold(row, raw)
	if !ok {
		return nil, fmt.Errorf("row %s: %s %s is no choice: want a letter, a number of a choice or its text", row.ID, name, clip(raw))
	}
	count := o.count(row)
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		got, ok := chosen(Answer(ep), count)
		if !ok {
			s := verdict(false, "no choice in "+short(Answer(ep)))
			s.Metrics = map[string]float64{"unparsed": 1}
			return s, nil
		}
		s := verdict(got == want, "chose "+got)
		s.Metrics = map[string]float64{"unparsed": 0}
		return s, nil
	}), nil
}

// gold reads a letter, the place of a choice from 0, or its text.
func (o *multipleChoice) gold(row datasets.Row, raw json.RawMessage) (string, bool) {
	text, list := strings.TrimSpace(plain(raw)), o.texts(row)
	if i, err := strconv.Atoi(text); err == nil {
		return string(rune('A' + i)), i >= 0 && i < min(max(len(list), 10), 26)
	}
	for i, t := range list {
		if strings.EqualFold(strings.TrimSpace(t), text) && i < 26 {
			return string(rune('A' + i)), true
		}
	}
	if letter := strings.ToUpper(strings.Trim(text, "()[]. :")); len(letter) == 1 && letter[0] >= 'A' && letter[0] <= 'Z' {
		return letter, int(letter[0]-'A') < o.count(row)
	}
	return chosen(text, o.count(row))
}

func (o *multipleChoice) binary() bool { return true }

func (o *multipleChoice) key(row datasets.Row, answer string) (string, bool) {
	return chosen(answer, o.count(row))
}

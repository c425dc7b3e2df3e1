package grade

import (
	"fmt"

	"hermes/datasets"
	"hermes/envs/grade/maths"
)

// mathematics compares what formulas mean: see package maths.
type mathematics struct {
	Field     string `yaml:"field"`
	Places    int    `yaml:"places"`    // decimals that must agree; 0: 6
	Loose     bool   `yaml:"loose"`     // letters may have other names
	Relations bool   `yaml:"relations"` // an inequality may stand for its interval
	Spelling  bool   `yaml:"spelling"`  // as the MATH data set compares: two spellings made alike
}

func (o *mathematics) check() error {
	if o.Places < 0 || o.Places > 15 {
		return fmt.Errorf("places %d: want 0 to 15", o.Places)
	}
	return nil
}

func (o *mathematics) options() maths.Options {
	return maths.Options{Places: o.Places, Loose: o.Loose, Relations: o.Relations}
}

func (o *mathematics) bind(row datasets.Row) (Grader, error) {
	raw, name, err := Gold{o.Field}.raw(row)
	if err != nil {
		return nil, err
	}
	gold := plain(raw)
	if _, ok := maths.Read(gold, o.options()); !ok {
		return nil, fmt.Errorf("row %s: %s %.80q has no mathematics", row.ID, name, gold)
	}
	return judged(func(got string) (bool, string) {
		r := maths.Equal(gold, got, o.options())
		if o.Spelling && r.Answer != "" {
			r = maths.Hendrycks(r.Gold, r.Answer)
		}
		if r.Answer == "" {
			return false, "no mathematics in " + short(got)
		}
		return r.Equal, "read " + short(r.Answer) + " for " + short(r.Gold)
	}), nil
}

func (o *mathematics) binary() bool { return true }

func (o *mathematics) key(_ datasets.Row, answer string) (string, bool) {
	return maths.Read(answer, o.options())
}

// Package shape turns the rewards of a group of samples into what a trainer gets: what
// becomes of samples that were cut off, of answers that are too long, of groups that are
// too small or that teach nothing, and which advantage each sample has. Its functions are
// pure.
//
// The raw reward of a sample is never lost: it is beside the shaped one.
package shape

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hermes/envs/grade/figures"
)

// Rules are the section `training` of a run file. The zero value is usable after
// [Rules.Check].
type Rules struct {
	Truncated   string    `yaml:"truncated"`    // score, mask, zero, drop: samples that a limit has cut off
	Overlong    *Overlong `yaml:"overlong"`     // a soft punishment of long answers; nil: none
	EqualScores string    `yaml:"equal-scores"` // drop, send, resample: groups whose scores are all the same
	ShortGroups string    `yaml:"short-groups"` // fill, send, drop: groups that lack samples; send leaves as many as divide the group's size
	Oversample  int       `yaml:"oversample"`   // samples beyond the group's size
	Keep        string    `yaml:"keep"`         // order, spread: which of the oversampled ones are sent
	Advantages  string    `yaml:"advantages"`   // none, grpo, rloo, dr_grpo
	Resamples   *int      `yaml:"resamples"`    // how often a row is tried again for equal scores; nil: once
}

// Overlong punishes answers softly: nothing up to SoftFrom tokens, then linearly up to
// Penalty at Max and beyond (DAPO, arXiv 2503.14476, equation 13).
type Overlong struct {
	SoftFrom int     `yaml:"soft_from"` // tokens of an answer from which the reward falls
	Max      int     `yaml:"max"`       // tokens at which the whole penalty is taken
	Penalty  float64 `yaml:"penalty"`   // taken off the reward, 0 or more
}

// A RuleError is a rule that makes no sense.
type RuleError struct{ Key, Text string }

func (e *RuleError) Error() string { return "training." + e.Key + ": " + e.Text }

func ruleError(key, format string, args ...any) error {
	return &RuleError{key, fmt.Sprintf(format, args...)}
}

// Check fills in the defaults and refuses what makes no sense, with a [RuleError].
func (r *Rules) Check() error {
	for _, x := range []struct {
		key   string
		at    *string
		words []string // the first is the default
	}{
		{"truncated", &r.Truncated, []string{"score", "mask", "zero", "drop"}},
		{"equal-scores", &r.EqualScores, []string{"drop", "send", "resample"}},
		{"short-groups", &r.ShortGroups, []string{"fill", "send", "drop"}},
		{"keep", &r.Keep, []string{"order", "spread"}},
		{"advantages", &r.Advantages, []string{"none", "grpo", "rloo", "dr_grpo"}},
	} {
		*x.at = cmp.Or(*x.at, x.words[0])
		if !slices.Contains(x.words, *x.at) {
			return ruleError(x.key, "%q is none of %s", *x.at, strings.Join(x.words, ", "))
		}
	}
	if r.Oversample < 0 {
		return ruleError("oversample", "%d: want 0 or more", r.Oversample)
	}
	if n := r.Again(); n < 0 || n > mostResamples {
		return ruleError("resamples", "%d: want 0 to %d", n, mostResamples)
	}
	if r.Keep == "spread" && r.Oversample == 0 {
		return ruleError("keep", "spread chooses among samples beyond the group's size, and there are none: set oversample, 1 or more")
	}
	if o := r.Overlong; o != nil && (o.SoftFrom < 0 || o.Max <= o.SoftFrom || !(o.Penalty >= 0) || math.IsInf(o.Penalty, 0)) {
		return ruleError("overlong", "soft_from %d, max %d, penalty %g: want 0 ≤ soft_from < max and a penalty of 0 or more", o.SoftFrom, o.Max, o.Penalty)
	}
	return nil
}

// mostResamples bounds how often a row is tried again.
const mostResamples = 100

// Again is how often a row is tried again for equal scores.
func (r Rules) Again() int {
	if r.Resamples == nil {
		return 1
	}
	return *r.Resamples
}

// Sample is one scored sample.
type Sample struct {
	Reward    float64 // raw
	Truncated bool    // cut off by a limit
	Length    int     // tokens that the model wrote
}

// Shaped is one sample of a group that is sent.
type Shaped struct {
	Index     int     // in the samples that were given
	Score     float64 // after shaping
	Masked    bool    // is in the group, and is not trained
	Advantage float64 // 0 without advantages, and where Masked
}

// Verdict is what becomes of a group.
type Verdict string

// The verdicts. Fill wants more samples of the same row; Resample wants the whole group
// again.
const (
	Send     Verdict = "send"
	Fill     Verdict = "fill"
	Resample Verdict = "resample"
	Drop     Verdict = "drop"
)

// Result is a group after shaping.
type Result struct {
	Verdict Verdict
	Why     string   // of a verdict other than Send: short, equal, or masked where no sample would be trained
	Missing int      // of Fill: samples that are wanted
	Samples []Shaped // of Send
	Dropped int      // samples that Truncated drops
	Surplus int      // samples beyond the group's size that are not sent
}

// Chances are what may still be tried for a group.
type Chances struct{ Fill, Resample bool }

// Group shapes the samples of a row for groups of size.
func (r Rules) Group(samples []Sample, size int, left Chances) (out Result) {
	var all []Shaped
	for i, s := range samples {
		x := Shaped{Index: i, Score: s.Reward}
		if s.Truncated {
			switch r.Truncated {
			case "drop":
				out.Dropped++
				continue
			case "zero":
				x.Score = 0
			case "mask":
				x.Masked = true
			}
		}
		x.Score -= r.Overlong.of(s.Length)
		all = append(all, x)
	}
	if len(all) < size {
		out.Why, out.Missing = "short", size-len(all)
		switch {
		case r.ShortGroups == "fill" && left.Fill:
			out.Verdict = Fill
			return out
		case r.ShortGroups != "send" || len(all) == 0:
			out.Verdict = Drop
			return out
		}
		size = divisor(size, len(all))
	}
	out.Surplus = len(all) - size
	all = choose(all, size, r.Keep)
	none := untrained(all)
	if none || r.EqualScores != "send" && equal(all) {
		out.Verdict, out.Why = Drop, "equal"
		if none {
			out.Why = "masked"
		}
		if r.EqualScores == "resample" && left.Resample {
			out.Verdict = Resample
		}
		return out
	}
	advantages(all, r.Advantages)
	out.Verdict = Send
	out.Samples = all
	out.Why = ""
	return out
}

// of is what is taken off the reward of an answer.
func (o *Overlong) of(length int) float64 {
	if o == nil || length <= o.SoftFrom {
		return 0
	}
	return o.Penalty * min(1, float64(length-o.SoftFrom)/float64(o.Max-o.SoftFrom))
}

// choose leaves size samples, in their order: the first ones, or, with spread, those whose
// scores lie furthest apart (from both ends in turn), which teach most.
func choose(all []Shaped, size int, keep string) []Shaped {
	if len(all) <= size {
		return all
	}
	if keep != "spread" {
		return all[:size]
	}
	slices.SortStableFunc(all, func(a, b Shaped) int { return cmp.Compare(b.Score, a.Score) })
	high := (size + 1) / 2
	all = append(slices.Clone(all[:high]), all[len(all)-(size-high):]...)
	slices.SortFunc(all, func(a, b Shaped) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// divisor is the largest divisor of a size that is at most n. A trajectory server makes
// batches of whole packs of the largest size: a group of 3 where others have 4 would stay in
// its queue for ever, one of 2 finds another of 2.
func divisor(size, n int) int {
	for size%n != 0 {
		n--
	}
	return n
}

// untrained reports whether every sample of a group is masked.
func untrained(all []Shaped) bool {
	return !slices.ContainsFunc(all, func(x Shaped) bool { return !x.Masked })
}

// equal reports whether a group teaches nothing. One sample alone is never equal to others.
func equal(all []Shaped) bool {
	for _, x := range all[1:] {
		if x.Score != all[0].Score {
			return false
		}
	}
	return len(all) > 1
}

// leastDeviation keeps the division by the deviation of nearly equal scores finite; that of
// Atropos' example trainer.
const leastDeviation = 1e-8

// advantages fills in what each sample is better than its group. A masked sample counts in
// the baseline and has none itself.
//
//	grpo     (r − mean) / deviation, of the population (arXiv 2402.03300)
//	rloo     r − mean of the others (arXiv 2402.14740)
//	dr_grpo  r − mean (arXiv 2503.20783)
func advantages(all []Shaped, kind string) {
	if kind == "none" || kind == "" || len(all) < 2 {
		return
	}
	most := 0.0
	for _, x := range all {
		most = max(most, math.Abs(x.Score))
	}
	unit := figures.Unit(most) // squares and sums of huge rewards would be beyond all numbers
	n := float64(len(all))
	mean := 0.0
	for _, x := range all {
		mean += x.Score / unit / n
	}
	square := 0.0
	for _, x := range all {
		square += (x.Score/unit - mean) * (x.Score/unit - mean) / n
	}
	for i := range all {
		if all[i].Masked {
			continue
		}
		a := all[i].Score/unit - mean
		switch kind {
		case "grpo":
			a /= max(math.Sqrt(square), leastDeviation/unit)
		case "rloo":
			a *= n / (n - 1)
		}
		if kind != "grpo" {
			a = figures.Finite(a * unit)
		}
		all[i].Advantage = a
	}
}
